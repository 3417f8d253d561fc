"""Tries the packages in bare containers: Debian's minimal systems with Python, a loader and clinfo, no compiler, no network.

Needs root, debootstrap and, to prepare the systems, Debian's packages and PyPI. What each container says goes to standard output.
"""

import os
import re
import shutil
import subprocess
import sys
import time

from common import HERE, ROOT, WORK, Failure, run

# Each release of Debian's and its Python. Their glibc: 2.31, 2.36, 2.41.
SUITES = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13"}
INSTALLED = "python3,python3-venv,ocl-icd-libopencl1,clinfo,ca-certificates"
# PyPI's, downloaded before.
CLIENTS = ["pyopencl", "numpy"]
SCRIPTS = HERE / "containers"
# The pages of the book with commands for a container (```sh,container).
PAGES = ["quick-start.md", "clients.md"]
MIRROR = "http://deb.debian.org/debian"

# Runs a command in a copy of a system that is thrown away: upper holds what it writes.
ENTER = """
set -eu
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay none -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
mkdir -p "$1/root/packages"
mount --bind "$3" "$1/root/packages"
mount -t proc none "$1/root/proc"
mount -t tmpfs none "$1/root/tmp"
mount --rbind /dev "$1/root/dev"
root=$1/root; shift 3
exec chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 XDG_CACHE_HOME=/tmp/cache "$@"
"""


def system(suite):
    """A bare system's folder."""
    root = WORK / "roots" / suite
    if not (root / "complete").exists():
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        run("debootstrap", "--variant=minbase", f"--include={INSTALLED}", suite, root, MIRROR)
        (root / "complete").touch()
    return root


def packages(suite):
    """A folder with our packages, PyPI's for this suite's Python, and what is run."""
    folder = WORK / "containers" / suite
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("spirula*"):
        old.unlink()
    made = [path for path in WORK.glob("spirula*") if path.is_file()]
    if not made:
        raise Failure("there are no packages: run ./x package first")
    for file in [*made, *SCRIPTS.iterdir()]:
        shutil.copy(file, folder)
    (folder / "commands.sh").write_text(commands_of_the_book())
    if not list(folder.glob("pyopencl-*.whl")):
        platforms = [word for tag in ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014") for word in ("--platform", f"{tag}_x86_64")]
        target = ["--only-binary", ":all:", "--python-version", SUITES[suite], *platforms]
        run(sys.executable, "-m", "pip", "download", "--quiet", *target, "--dest", folder, *CLIENTS)
    return folder


def commands_of_the_book():
    """What the pages tell users to do, as one script, each block in a shell of its own as a user's would be."""
    blocks = []
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text()
        blocks += re.findall(r"^```sh,container\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return "".join(f"( set -eux\n{block})\n" for block in blocks)


def enter(root, folder, *command):
    """Runs in a container without network."""
    scratch = WORK / "scratch"
    scratch.mkdir(exist_ok=True)
    inside = ["--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    done = subprocess.run(["unshare", *inside, "sh", "-c", ENTER, "enter", scratch, root, folder, *command])
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} failed in the container {root.name}")


def with_hashcat(suite):
    """A system where apt-get has installed our packages and hashcat, which asks for an OpenCL driver and takes ours."""
    bare, root = system(suite), WORK / "roots" / f"{suite}-hashcat"
    shutil.rmtree(root, ignore_errors=True)
    run("cp", "-a", "--reflink=auto", bare, root)
    for name in ("spirula", "spirula-clang"):
        [package] = WORK.glob(f"{name}_*.deb")
        shutil.copy(package, root / "root")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    run("chroot", root, "apt-get", "update", env=environment)
    ours = [f"/root/{path.name}" for path in sorted((root / "root").glob("*.deb"))]
    run("chroot", root, "apt-get", "install", "-y", "--no-install-recommends", *ours, "hashcat", env=environment)
    return root


def all_of(suites):
    """Everything, in each of them."""
    for suite in suites:
        if suite not in SUITES:
            raise Failure(f"unknown: {suite}; known are {', '.join(SUITES)}")
        root, folder = system(suite), packages(suite)
        for script in ("pip.sh", "debian.sh", "tarball.sh", "book.sh"):
            print(f"\n== {suite}: {script}", flush=True)
            start = time.monotonic()
            enter(root, folder, "sh", f"/packages/{script}")
            print(f"== {suite}: {script} passed in {time.monotonic() - start:.0f} s", flush=True)
    suite = "bookworm" if "bookworm" in suites else None
    if suite:
        print(f"\n== {suite}: hashcat.sh", flush=True)
        enter(with_hashcat(suite), packages(suite), "sh", "/packages/hashcat.sh")
    print("\nall containers passed")
