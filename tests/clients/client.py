"""What the clients share: how they say what they found, and how they run a package's own tests."""

import json
import os
import re
import subprocess
import sys


def report(what, passed, detail=""):
    """A line for run.py: one thing that was tried."""
    print(json.dumps({"what": what, "passed": bool(passed), "detail": detail}), flush=True)


def output_of(command, limit=900, **options):
    """A command's exit status and all that it wrote; a limit in seconds keeps a program that hangs from hanging us."""
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=limit, **options
        )
    except subprocess.TimeoutExpired as error:
        return None, (error.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout.decode(errors="replace")


def last_words(text, lines=4):
    """What a program said last, on one line."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[-lines:])[:400]


def run_tests(what, arguments, known=None, cwd=None, **environment):
    """Has pytest run some tests: a line for each that fails, and one for all. `known` fail for reasons of their own, which it tells."""
    known = known or {}
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "--disable-warnings", *arguments]
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **environment)
    _, text = output_of(command, limit=1800, cwd=cwd, env=environment)
    for test in sorted(set(re.findall(r"^(?:FAILED|ERROR) \S*?::(\w+)", text, re.MULTILINE))):
        report(test, test in known, known.get(test, "failed"))
    report(what, bool(re.search(r"\d+ (?:passed|skipped)", text)), last_words(text, 1))


def sources_in(folder, package):
    """The tests of a package's source distribution, which run.py has put there; nothing, with a line that says so, if it has not."""
    for entry in sorted(os.listdir(folder)):
        tests = os.path.join(folder, entry, "test")
        if entry.startswith(f"{package}-") and os.path.isdir(tests):
            return tests
    return report("tests", False, f"no source distribution of {package} in {folder}")
