"""The OpenCL tests of silx and pyFAI, which come with their packages: convolutions by buffer and by texture, SIFT, sorting, histograms,
integrations."""

import os
from importlib.util import find_spec

from client import run_tests


def folder(module, *below):
    return os.path.join(os.path.dirname(find_spec(module).origin), *below)


# scipy would download the pictures that some tests work on.
run_tests("silx/opencl", ["-p", "silx_pictures", folder("silx", "opencl")])
run_tests("pyFAI/opencl/test", [folder("pyFAI", "opencl", "test")])
