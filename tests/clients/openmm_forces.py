"""OpenMM's own test of its installation: the forces on a molecule by each of its platforms, OpenCL's among them."""

import re
import sys

from client import last_words, output_of, report

_, text = output_of([sys.executable, "-m", "openmm.testInstallation"], limit=600)
computed = re.search(r"OpenCL .*Successfully computed forces|OpenCL.*\n- Successfully computed forces", text)
report("forces", bool(computed), "computed" if computed else last_words(text))
for one, other, difference in re.findall(r"^(\w+) vs\. (\w+): (\S+)", text, re.MULTILINE):
    if "OpenCL" in (one, other):
        report(f"{one} and {other}", "All differences are within tolerance" in text, f"median difference {difference}")
