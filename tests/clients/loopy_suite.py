"""The tests of PyPI's loopy, which makes kernels of loops: products, sums, scans, stencils, each in many work-group sizes."""

import sys

from client import run_tests, sources_in

NAMES = ["apps", "linalg", "loopy", "nbody", "reduction", "scan", "sem_reagan", "target", "transform"]

if tests := sources_in(sys.argv[1], "loopy"):
    run_tests("the rest", [f"test_{name}.py" for name in NAMES], cwd=tests, PYOPENCL_TEST="0:0", PYOPENCL_NO_CACHE="1")
