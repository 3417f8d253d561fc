"""The OpenCL tests of silx and pyFAI, which come with their packages: convolutions by buffer and by texture, SIFT, sorting, histograms,
integrations."""

import os
import re
import sys
from importlib.util import find_spec

from client import last_words, output_of, report


def run(tests, pictures):
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--disable-warnings", *pictures, tests]
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    _, text = output_of(command, limit=1800, env=environment)
    name = os.path.relpath(tests, os.path.dirname(os.path.dirname(os.path.dirname(tests))))
    for test in sorted(set(re.findall(r"^(?:FAILED|ERROR) \S*?::(\S+)", text, re.MULTILINE))):
        report(f"{name} {test}", False, "failed")
    return report(name, bool(re.search(r"\d+ passed", text)), last_words(text, 1))


def folder(module, *below):
    return os.path.join(os.path.dirname(find_spec(module).origin), *below)


# scipy would download the pictures that some tests work on.
run(folder("silx", "opencl"), ["-p", "silx_pictures"])
run(folder("pyFAI", "opencl", "test"), [])
