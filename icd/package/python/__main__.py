"""Prints the driver's path."""

from spirula import library

print(library())
