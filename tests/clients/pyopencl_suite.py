"""pyopencl's own tests, from its source distribution on PyPI: no failure that other runtimes don't have."""

import sys

from client import run_tests, sources_in

# What fails for reasons of its own, on every runtime or on all that the test makes no exception for.
KNOWN = {
    "test_xdg_cache_home": "fails on Intel's runtime as well",
    "test_get_info": "asks an image for `image.depth`, which pyopencl's images haven't; Intel's and PoCL's are left out there",
}

if tests := sources_in(sys.argv[1], "pyopencl"):
    run_tests("the rest", ["."], KNOWN, cwd=tests, PYOPENCL_TEST="0:0")
