"""What the clients share: how they say what they found."""

import json
import subprocess


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
