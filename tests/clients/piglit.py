"""Piglit's tests of OpenCL (Debian's package `piglit`): its programs that call the API, and kernels whose results it knows."""

import re
from pathlib import Path

from client import last_words, output_of, report

ROOT = Path("/usr/lib/x86_64-linux-gnu/piglit")

# What asks for something else than the specification says, or than Debian packs.
NOT_ASKED = {
    "cl-api-create-program-with-binary": "makes kernels of a program that was not built",
    "cl-api-get-command-queue-info": "asks a queue of the host for CL_QUEUE_SIZE, which only a queue of the device has",
    "cl-api-get-device-info": "wants a device of OpenCL 1.1",
    "cl-api-get-extension-function-address-for-platform": "asks for no platform's function, which the ICD loader answers",
    "cl-api-get-kernel-arg-info": "wants nothing to be known of arguments without -cl-kernel-arg-info",
    "cl-custom-use-sub-buffer-in-kernel": "begins a sub-buffer where none may begin",
    "include-directories.cl": "includes a file that the package lacks",
    "doc_program.cl": "has a variable of the program in private memory",
}


def results(groups):
    """How many of the tests had each result, and which failed."""
    counts, failed = {}, []
    for command in groups:
        name = Path(command[-1] if command[-1].endswith(".cl") else command[0]).name
        status, text = output_of(command, limit=120, cwd=ROOT)
        found = re.findall(r'PIGLIT: \{"result": "(\w+)"', text)
        result = found[-1] if found else f"status {status}"
        if result == "fail" and name in NOT_ASKED:
            result = "not asked"
        counts[result] = counts.get(result, 0) + 1
        if result not in ("pass", "skip", "warn", "not asked"):
            failed.append(f"{name}: {last_words(text, 2)}")
    return counts, failed


tester = str(ROOT / "bin/cl-program-tester")
if not Path(tester).exists():
    report("piglit", False, "it is not installed: apt-get install --no-install-recommends piglit")
else:
    kernels = [[tester, str(path)] for path in sorted(ROOT.glob("**/*.cl"))]
    programs = [[str(path), "-auto"] for path in sorted(ROOT.glob("bin/cl-*")) if str(path) != tester]
    for what, commands in [("kernels", kernels), ("programs", programs)]:
        counts, failed = results(commands)
        said = ", ".join(f"{count} {result}" for result, count in sorted(counts.items()))
        report(what, counts.get("pass", 0) > 0 and not failed, " / ".join([said, *failed[:5]]))
