"""The heat equation with MPI: a plate in bands of rows, one for each rank, which exchange their edges before each step.

Every rank writes its band to a file from time to time. If one dies, MPI ends the others; started again, with as many ranks or
another number of them, they go on from the last step that all of the plate was written of.

mpiexec -n 2 python3 heat.py [--size 2048] [--steps 400] [--checkpoints FOLDER] [--fail-at STEP]
"""

import argparse
import hashlib
import json
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
from device import Device, share, stay_on
from mpi4py import MPI

RATE = np.float32(0.2)
KERNEL = Path(__file__).resolve().parent / "heat.bc64"
WORLD = MPI.COMM_WORLD


def band(rank, ranks, size):
    """The rows of a rank: first, and behind the last."""
    return size * rank // ranks, size * (rank + 1) // ranks


def beginning(first, end, size):
    """A plate with warm patches, these rows of it."""
    y, x = np.mgrid[first:end, 0:size].astype(np.float32) / size
    return ((np.sin(9 * x) * np.cos(7 * y) > 0.2) * 100).astype(np.float32)


class Plate:
    """A rank's rows on its device, with one more above and below, twice."""

    def __init__(self, rows):
        import pyopencl as cl

        self.cl, self.device = cl, Device()
        self.kernel = self.device.kernel(KERNEL, "heat")
        self.rows, self.width = rows.shape
        # Beyond the plate's own edges it is as warm as at them.
        whole = np.concatenate([rows[:1], rows, rows[-1:]])
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.now, self.next = (cl.Buffer(self.device.context, flags, hostbuf=whole) for _ in range(2))

    def _row(self, row):
        return {"is_blocking": True, "src_offset": row * self.width * 4}

    def read(self, first, count):
        """These rows, counted from the one above."""
        result = np.empty((count, self.width), np.float32)
        self.cl.enqueue_copy(self.device.queue, result, self.now, **self._row(first))
        return result

    def write(self, row, values):
        self.cl.enqueue_copy(self.device.queue, self.now, values, dst_offset=row * self.width * 4)

    def exchange(self):
        """Edges to the neighbours, and theirs here."""
        above, below = WORLD.rank - 1, WORLD.rank + 1
        above, below = above if above >= 0 else MPI.PROC_NULL, below if below < WORLD.size else MPI.PROC_NULL
        top, bottom = self.read(1, 1), self.read(self.rows, 1)
        # At the plate's own edges nobody sends, and what is there stays.
        from_below, from_above = bottom.copy(), top.copy()
        WORLD.Sendrecv(top, above, recvbuf=from_below, source=below)
        WORLD.Sendrecv(bottom, below, recvbuf=from_above, source=above)
        self.write(0, from_above)
        self.write(self.rows + 1, from_below)

    def step(self):
        self.exchange()
        self.kernel(self.device.queue, (self.width, self.rows), None, self.now, self.next, np.int32(self.width), RATE)
        self.now, self.next = self.next, self.now


def last_complete(folder, size):
    """The last step that files of all rows are there for, and those files by their rows."""
    steps = {}
    for path in folder.glob("*.npy"):
        step, first, end = map(int, re.fullmatch(r"(\d+)-(\d+)-(\d+)", path.stem).groups())
        steps.setdefault(step, {})[first, end] = path
    whole = [step for step, files in steps.items() if sum(end - first for first, end in files) == size]
    return (max(whole), steps[max(whole)]) if whole else (0, {})


def resume(folder, first, end, size):
    """The step to go on from, and the rows then."""
    step, files = last_complete(folder, size) if folder else (0, {})
    if not files:
        return 0, beginning(first, end, size)
    # Mapped: only the rows that are needed are read.
    parts = [np.load(path, mmap_mode="r")[max(first - start, 0) : max(end - start, 0)] for (start, _), path in sorted(files.items())]
    return step, np.concatenate(parts).astype(np.float32)


def keep(folder, step, first, end, rows):
    """Writes a band; the name appears when all of it is there."""
    path = folder / f"{step}-{first}-{end}.npy"
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.save(file, rows)
    part.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--checkpoints", type=Path)
    parser.add_argument("--every", type=int, default=50, help="steps from one checkpoint to the next")
    parser.add_argument("--fail-at", type=int, help="the last rank dies there")
    parser.add_argument("--parts", type=int, help="parts of the machine, of which each rank has one; without it, as many as ranks")
    given = parser.parse_args()
    # Ranks of one machine share its processors.
    local = WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    stay_on(share(local.rank, given.parts or local.size))
    first, end = band(WORLD.rank, WORLD.size, given.size)
    begun, rows = resume(given.checkpoints, first, end, given.size)
    WORLD.Barrier()
    plate = Plate(rows)
    plate.step()
    plate = Plate(rows)
    WORLD.Barrier()
    start = time.monotonic()
    for step in range(begun, given.steps):
        if step == given.fail_at and WORLD.rank == WORLD.size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if given.checkpoints and step > begun and step % given.every == 0:
            keep(given.checkpoints, step, first, end, plate.read(1, plate.rows))
        plate.step()
    result = plate.read(1, plate.rows)
    WORLD.Barrier()
    seconds = time.monotonic() - start
    bands = WORLD.gather(result)
    if WORLD.rank == 0:
        digest = hashlib.sha256(np.concatenate(bands).tobytes()).hexdigest()
        steps = given.steps - begun
        print(json.dumps({"ranks": WORLD.size, "from": begun, "steps": steps, "seconds": seconds, "result": digest}))


if __name__ == "__main__":
    main()
