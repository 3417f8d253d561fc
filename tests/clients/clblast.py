"""CLBlast's own test programs (Debian's clblast-tests), which compare with a BLAS of the CPU."""

import re

from client import last_words, output_of, report

ROUTINES = "axpy dot nrm2 asum amax scal swap gemv ger trsv gemm syrk trmm trsm symm omatcopy im2col gemmbatched".split()


def counts(text):
    """Passed and failed tests."""
    return [sum(int(number) for number in re.findall(rf"(\d+) test\(s\) {word}", text)) for word in ("passed", "failed")]


for routine in ROUTINES:
    status, text = output_of([f"clblast_test_x{routine}"], limit=600)
    parts = re.split(r"Starting tests for the \S*'(\w+)'", text)
    # In half, results are compared with float's: what has a rounding's bad luck fails on every runtime.
    half = [body for name, body in zip(parts[1::2], parts[2::2]) if name.lstrip("i").startswith("H")]
    passed, failed = counts(text)
    in_half = sum(counts(body)[1] for body in half)
    detail = f"{passed} passed, {failed} failed" + (f", {in_half} of them in half" if in_half else "")
    good = status is not None and passed > 0 and failed == in_half
    report(f"x{routine}", good, detail if passed else last_words(text))
