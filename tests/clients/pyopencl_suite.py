"""pyopencl's own tests, from its source distribution on PyPI: no failure that other runtimes don't have."""

import glob
import os
import re
import sys

from client import last_words, output_of, report

# What fails for reasons of its own, on every runtime or on all that the test makes no exception for.
KNOWN = {
    "test_xdg_cache_home": "fails on Intel's runtime as well",
    "test_get_info": "asks an image for `image.depth`, which pyopencl's images haven't; Intel's and PoCL's are left out there",
}


def main(folder):
    tests = glob.glob(os.path.join(folder, "pyopencl-*", "test"))
    if not tests:
        return report("tests", False, f"no source distribution in {folder}")
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--disable-warnings", "."]
    environment = dict(os.environ, PYOPENCL_TEST="0:0", PYTHONDONTWRITEBYTECODE="1")
    _, text = output_of(command, limit=1800, cwd=tests[0], env=environment)
    summary = re.search(r"(\d+) passed", text)
    failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) \S*?::(\w+)", text, re.MULTILINE)))
    for name in failed:
        report(name, name in KNOWN, KNOWN.get(name, "failed"))
    return report("the rest", bool(summary), last_words(text, 1))


main(sys.argv[1])
