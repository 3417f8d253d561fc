"""The tests of PyPI's dpctl, a library of SYCL that DPC++ compiled to some 16,000 modules of SPIR-V."""

import glob
import os
import sys
from importlib.util import find_spec

from client import run_tests

# A test of each function with every type: a quarter of an hour.
LONG = "elementwise"

tests = os.path.join(os.path.dirname(find_spec("dpctl").origin), "tests")
names = sorted(os.path.basename(file) for file in glob.glob(os.path.join(tests, "test_*.py")))
for name in names + ([LONG] if sys.argv[1:] == ["whole"] else []):
    run_tests(name, [name], cwd=tests, ONEAPI_DEVICE_SELECTOR="opencl:cpu")
