"""Runs programs that others wrote on Spirula, through the ICD loader, as their users would: `./x clients`.

Each client is a script of this folder that prints a line of JSON for each thing it tries (client.py). With
`--beside NAME=LIBRARY` they run on another runtime, too, and the table shows both. What Python clients need comes from PyPI
into target/clients; `x` installs what comes from Debian.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The last one with its array library, which is in `dpnp` since.
DPCTL = ["dpctl==0.21.1", "numpy", "pytest", "cython", "setuptools"]
# Name: script and arguments, what of PyPI it needs.
CLIENTS = {
    "clinfo": (["clinfo.py"], []),
    "hashcat": (["hashcat.py"], []),
    "hashcat-speed": (["hashcat.py", "speed"], []),
    "ffmpeg": (["ffmpeg.py"], []),
    "clblast": (["clblast.py"], []),
    "pyopencl": (["pyopencl_suite.py", "{folder}"], ["pyopencl", "numpy", "pytest", "mako"]),
    "loopy": (["loopy_suite.py", "{folder}"], ["loopy==2025.2", "islpy==2025.2.5", "pyopencl", "numpy", "scipy", "pytest"]),
    "sycl": (["sycl_suite.py"], DPCTL),
    "sycl-whole": (["sycl_suite.py", "whole"], DPCTL),
    "opencv": (["opencv.py"], ["opencv-python-headless", "numpy"]),
    "tinygrad": (["tinygrad_network.py"], ["tinygrad", "numpy"]),
    "lightgbm": (["lightgbm_trees.py"], ["lightgbm", "numpy"]),
    "openmm": (["openmm_forces.py"], ["openmm"]),
    "mandelbulber": (["mandelbulber.py"], ["pillow"]),
    "piglit": (["piglit.py"], []),
    "vkfft": (["vkfft_transforms.py"], ["pyvkfft==2025.1.1", "pyopencl", "numpy", "psutil"]),
    "silx": (["silx_suite.py"], ["silx[opencl]", "pyFAI", "pytest", "scipy"]),
}
# Takes long, or needs a large package: only when it is named.
ON_REQUEST = ["hashcat-speed", "loopy", "mandelbulber", "piglit", "sycl-whole", "vkfft"]
# Their tests are in their source distributions only.
OF_SOURCES = ["loopy", "pyopencl"]


def python_of(name, packages, folder):
    """An interpreter with these packages."""
    if not packages:
        return sys.executable
    place = folder / name
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        (place / "complete").touch()
    return python


def sources_of(package, python, folder):
    """The source distribution of the release that is installed."""
    if list(folder.glob(f"{package}-*/test")):
        return
    version = f"import importlib.metadata as m; print(m.version('{package}'))"
    version = subprocess.run([python, "-c", version], check=True, capture_output=True, text=True).stdout.strip()
    download = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", package, f"{package}=={version}"]
    subprocess.run([python, *download, "--dest", folder], check=True)
    for archive in folder.glob(f"{package}-*.tar.gz"):
        subprocess.run(["tar", "xf", archive, "-C", folder], check=True)


def vendors_of(name, library, folder):
    """A folder in which the ICD loader finds this runtime alone."""
    place = folder / "vendors" / name
    place.mkdir(parents=True, exist_ok=True)
    (place / "runtime.icd").write_text(f"{library}\n", encoding="utf-8")
    return place


def run(client, python, runtime, library, folder):
    """What a client reported, and its seconds."""
    script, *arguments = (part.format(folder=folder) for part in CLIENTS[client][0])
    environment = dict(os.environ, OCL_ICD_VENDORS=str(vendors_of(runtime, library, folder)))
    if runtime != "spirula":
        environment["LD_LIBRARY_PATH"] = str(Path(library).parent)
    environment["PYTHONPATH"] = str(HERE)
    begun = time.monotonic()
    done = subprocess.run([python, HERE / script, *arguments], env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        words = " / ".join(done.stderr.strip().splitlines()[-3:])[:400]
        lines.append({"what": "the client itself", "passed": False, "detail": f"status {done.returncode}: {words}"})
    return lines, seconds


def main():
    parser = argparse.ArgumentParser(prog="./x clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("client", nargs="*", help=f"which: {', '.join(CLIENTS)}")
    parser.add_argument("--library", default=ROOT / "target/release/libspirula.so", type=Path)
    parser.add_argument("--beside", action="append", default=[], metavar="NAME=LIBRARY", help="another runtime")
    options = parser.parse_args()
    if unknown := [name for name in options.client if name not in CLIENTS]:
        parser.error(f"no client {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
    runtimes = [("spirula", options.library.resolve()), *(pair.split("=", 1) for pair in options.beside)]
    folder = ROOT / "target" / "clients"
    folder.mkdir(parents=True, exist_ok=True)
    table, good = [], True
    for client in options.client or [name for name in CLIENTS if name not in ON_REQUEST]:
        python = python_of(client, CLIENTS[client][1], folder)
        if client in OF_SOURCES:
            sources_of(client, python, folder)
        for runtime, library in runtimes:
            lines, seconds = run(client, python, runtime, library, folder)
            passed = sum(line["passed"] for line in lines)
            for line in lines:
                print(f"{client:14} {runtime:8} {'ok' if line['passed'] else 'FAILED':6} {line['what']:24} {line['detail']}", flush=True)
            table.append(f"{client:14} {runtime:8} {passed:4} of {len(lines):4} {seconds:8.1f} s")
            good &= passed == len(lines) or runtime != "spirula"
    print("\n" + "\n".join(table))
    return 0 if good else 1


sys.exit(main())
