"""Runs the examples of many processes: `./x distributed`. Each with one and two workers, and with one that dies midway; all results
must be the same. What they need of PyPI (Dask, mpi4py and MPICH) goes to target/distributed."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target")).resolve()
PACKAGES = ["dask", "distributed", "mpi4py", "mpich", "pyopencl", "numpy"]


def python():
    """An interpreter with what the examples need."""
    place = TARGET / "distributed"
    if not (place / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        subprocess.run([place / "bin/pip", "install", "--quiet", *PACKAGES], check=True)
        (place / "complete").touch()
    return place / "bin/python"


def environment(library):
    """One where the loader finds this library alone."""
    vendors = TARGET / "distributed/vendors"
    vendors.mkdir(exist_ok=True)
    (vendors / "spirula.icd").write_text(f"{library}\n")
    return {**os.environ, "OCL_ICD_VENDORS": str(vendors), "SPIRULA_TIER": "optimized"}


# What is compared has the same share of the machine for each process, however many there are.
PARTS = ["--parts", 2]


class Runner:
    """Runs an example and takes its last line, which is JSON."""

    def __init__(self, library):
        self.python, self.environment = python(), environment(library)

    def start(self, *command):
        return subprocess.run([str(word) for word in command], env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def result(self, *command):
        done = self.start(*command)
        if done.returncode != 0:
            sys.exit(f"{command} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def render(self, workers, *options):
        return self.result(self.python, HERE / "render.py", "--workers", workers, *PARTS, *options)

    def heat(self, ranks, *options):
        return [self.python.parent / "mpiexec", "-n", ranks, self.python, HERE / "heat.py", *PARTS, *options]


def same(results):
    """All results are one."""
    digests = {result["result"] for result in results}
    if len(digests) != 1:
        sys.exit(f"the results differ: {digests}")


def scaling(name, results):
    """One line for each number of processes."""
    base = results[0]["seconds"]
    for result in results:
        processes = result.get("workers") or result.get("ranks")
        print(f"{name}: {processes} process{'es' if processes > 1 else ''}: {result['seconds']:.2f} s, {base / result['seconds']:.2f} times one's speed", flush=True)


def dask(runner):
    results = [runner.render(workers) for workers in (1, 2)]
    scaling("render (Dask)", results)
    survived = runner.render(2, "--kill")
    if not survived["killed"]:
        sys.exit("no worker was killed")
    same([*results, survived])
    print(f"render (Dask): 2 processes, one of them killed: the same picture and histogram, {survived['seconds']:.2f} s")


def mpi(runner):
    results = [runner.result(*runner.heat(ranks)) for ranks in (1, 2)]
    scaling("heat (MPI)", results)
    with tempfile.TemporaryDirectory() as folder:
        failed = runner.start(*runner.heat(2, "--checkpoints", folder, "--fail-at", 230))
        if failed.returncode == 0:
            sys.exit("a rank died, and mpiexec says that all is well")
        # Not with the number that began: what goes on may have lost a machine.
        after = runner.result(*runner.heat(1, "--checkpoints", folder))
    if not 0 < after["from"] <= 230:
        sys.exit(f"it went on from step {after['from']}")
    same([*results, after])
    print(f"heat (MPI): 2 processes, one killed at step 230: the same plate, by one process from step {after['from']} on")


def main():
    parser = argparse.ArgumentParser(prog="x distributed", description=__doc__)
    parser.add_argument("--library", type=Path, default=TARGET / "release/libspirula.so")
    parser.add_argument("examples", nargs="*", choices=[[], "dask", "mpi"])
    given = parser.parse_args()
    runner = Runner(given.library.resolve())
    for name in given.examples or ["dask", "mpi"]:
        {"dask": dask, "mpi": mpi}[name](runner)
    print("all results are right")


if __name__ == "__main__":
    main()
