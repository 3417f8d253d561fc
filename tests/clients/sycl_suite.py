"""The tests of PyPI's dpctl, a library of SYCL that DPC++ compiled to some 16,000 modules of SPIR-V."""

import glob
import os
import re
import sys
from importlib.util import find_spec

from client import last_words, output_of, report

# A test of each function with every type: a quarter of an hour.
LONG = "elementwise"


def run(tests, name):
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--disable-warnings", name]
    environment = dict(os.environ, ONEAPI_DEVICE_SELECTOR="opencl:cpu", PYTHONDONTWRITEBYTECODE="1")
    _, text = output_of(command, limit=1800, cwd=tests, env=environment)
    failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) \S*?::(\w+)", text, re.MULTILINE)))
    for test in failed:
        report(f"{name} {test}", False, "failed")
    return report(name, bool(re.search(r"\d+ (?:passed|skipped)", text)), last_words(text, 1))


def main(whole):
    tests = os.path.join(os.path.dirname(find_spec("dpctl").origin), "tests")
    names = sorted(os.path.basename(file) for file in glob.glob(os.path.join(tests, "test_*.py")))
    results = [run(tests, name) for name in names + ([LONG] if whole else [])]
    return all(results)


main(sys.argv[1:] == ["whole"])
