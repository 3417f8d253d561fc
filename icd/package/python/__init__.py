"""Spirula's OpenCL driver. pyopencl finds it by itself; for other programs:

    export OCL_ICD_FILENAMES=$(python -m spirula)

`python -m spirula.saxpy` runs a SPIR binary with pyopencl and checks every result.
"""

import importlib.metadata
from pathlib import Path


def library():
    """The driver's path."""
    distribution = importlib.metadata.distribution("spirula")
    [file] = [file for file in distribution.files if file.name == "libspirula.so"]
    return str(Path(distribution.locate_file(file)).resolve())
