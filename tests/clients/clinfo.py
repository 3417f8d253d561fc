"""clinfo asks for all that a platform and its devices say: no question may end in an error."""

import re

from client import last_words, output_of, report

# With -a errors stand beside the questions that are not for this device, too.
WAYS = [("readable", []), ("raw", ["--raw"]), ("every question", ["-a", "--raw"])]


def errors(text):
    """The lines with an error: clinfo writes `<printDeviceInfo:12: get CL_… : error -30>` for an answer that it did not get."""
    return [line.strip() for line in text.splitlines() if re.search(r"\berror -?\d+|\bCL_(?:INVALID|OUT_OF)_\w+", line)]


for way, arguments in WAYS:
    status, text = output_of(["clinfo", *arguments], limit=120)
    wrong = errors(text)
    answers = len(text.splitlines())
    good = status == 0 and answers > 100 and not wrong
    report(way, good, f"{answers} lines, no error" if good else " / ".join(wrong[:3]) or last_words(text))
