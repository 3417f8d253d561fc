"""What the parts of `./x package` share: the table of files, the version, and running commands."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
# All that is made on the way, and the packages themselves.
WORK = TARGET / "package"
MADE = WORK / "made"
TRIPLE = "x86_64-unknown-linux-gnu"
# The oldest C library that packages run with.
GLIBC = "2.28"


class Failure(Exception):
    """Said to the user as it is."""


@dataclass(frozen=True)
class File:
    """A line of files.txt."""

    package: str
    source: Path
    to: str
    mode: int


def run(*command, **options):
    """Runs; fails with what the command said."""
    command = [str(word) for word in command]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)[:500]} failed:\n{done.stdout[-5000:]}")
    return done.stdout


def show(*command, **options):
    """Runs, for the user to see."""
    command = [str(word) for word in command]
    if subprocess.run(command, **options).returncode != 0:
        raise Failure(f"{' '.join(command)} failed")


def version():
    """The workspace's."""
    return re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def date():
    """Of the last commit, in seconds: the time of all packed files, so that one commit yields one package."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "log", "-1", "--format=%ct", cwd=ROOT))


def source(name):
    """Where a file of the table is."""
    kind, _, rest = name.rpartition(":")
    return {"built": TARGET / TRIPLE / "packaged", "made": MADE, "said": MADE, "": ROOT}[kind] / rest


def rows():
    """The table's."""
    lines = (line.split() for line in (HERE / "files.txt").read_text().splitlines())
    return [line for line in lines if line and not line[0].startswith("#")]


def files(package):
    """What is in a package."""
    return [File(row[0], source(row[1]), row[2], int(row[3], 8)) for row in rows() if row[0] == package]


def stage(package, folder):
    """Copies a package's files under a prefix."""
    for file in files(package):
        to = folder / file.to
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.source, to)
        to.chmod(file.mode)


def main(function):
    """Runs it; failures are told without a traceback."""
    try:
        function()
    except Failure as failure:
        sys.exit(f"x: {failure}")
