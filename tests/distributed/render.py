"""Renders and reduces with Dask: a Mandelbrot set in bands, each a task for any worker. A worker takes 64 samples for each pixel, and sends
their mean, and a histogram of them all.

A worker is a process with a NUMA node's processors, or a share of one's. What it is sent is a band's place; it keeps its
device and its programs, which are SPIR binaries, from band to band. A worker that dies costs what it was at: Dask gives its
bands to others, and starts another.

python3 render.py --workers 2 [--kill] [--size 2048]
"""

import argparse
import hashlib
import json
import os
import signal
import sys
import time

import numpy as np
from dask.distributed import Client, LocalCluster, WorkerPlugin, as_completed
from device import FIXTURES, Device, share, stay_on

# One byte for each sample, and so many of them along each side of a pixel.
ITERATIONS = 255
SAMPLES = 8
LEFT, TOP, EXTENT = -2.2, -1.5, 3.0
GROUP, PER_ITEM = 256, 16


class Placed(WorkerPlugin):
    """Gives a worker its processors before it does anything."""

    def __init__(self, parts):
        self.parts = parts

    def setup(self, worker):
        # LocalCluster names them 0, 1, …
        stay_on(share(int(worker.name), self.parts))


_device = None


def device():
    """This process's."""
    global _device
    _device = _device or Device()
    return _device


def band(first, rows, size):
    """These rows of the picture, and how many samples of it took how many iterations."""
    import pyopencl as cl

    here = device()
    width, height = size * SAMPLES, rows * SAMPLES
    step = np.float32(EXTENT / width)
    counts = cl.Buffer(here.context, cl.mem_flags.READ_WRITE, width * height * 4)
    render = here.kernel(FIXTURES / "mandelbrot.bc64", "mandelbrot")
    top = np.float32(TOP + EXTENT / size * first)
    render(here.queue, (width, height), None, counts, np.int32(width), np.int32(ITERATIONS), np.float32(LEFT), top, step)
    iterations = np.empty((height, width), np.int32)
    cl.enqueue_copy(here.queue, iterations, counts)
    samples = iterations.astype(np.uint8)

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    bytes_, bins = cl.Buffer(here.context, flags, hostbuf=samples), cl.Buffer(here.context, flags, hostbuf=np.zeros(256, np.uint32))
    reduce = here.kernel(FIXTURES / "histogram.bc64", "histogram")
    reduce(here.queue, (samples.size // PER_ITEM,), (GROUP,), bytes_, bins, np.int32(PER_ITEM))
    histogram = np.empty(256, np.uint32)
    cl.enqueue_copy(here.queue, histogram, bins)
    return first, means(samples), histogram


def means(samples):
    """One byte for each pixel's samples."""
    height, width = (length // SAMPLES for length in samples.shape)
    sums = samples.reshape(height, SAMPLES, width * SAMPLES).sum(axis=1, dtype=np.uint16).reshape(height, width, SAMPLES).sum(axis=2)
    return (sums // SAMPLES**2).astype(np.uint8)


def by_numpy(first, rows, size):
    """The same pixels by the host's own arithmetic."""
    width, height = size * SAMPLES, rows * SAMPLES
    step = np.float32(EXTENT / width)
    cx = np.float32(LEFT) + step * np.arange(width, dtype=np.float32)[None, :]
    cy = np.float32(TOP + EXTENT / size * first) + step * np.arange(height, dtype=np.float32)[:, None]
    x, y, n = (np.zeros((height, width), kind) for kind in (np.float32, np.float32, np.uint8))
    for _ in range(ITERATIONS):
        inside = x * x + y * y < 4
        n += inside
        x, y = np.where(inside, x * x - y * y + cx, x), np.where(inside, 2 * x * y + cy, y)
    return means(n)


def render(client, size, rows, kill):
    """The whole picture and its histogram. `kill`: ends a worker, without a warning, when a quarter is done."""
    tasks = client.map(band, range(0, size, rows), rows=rows, size=size, pure=False)
    picture, histogram = np.empty((size, size), np.uint8), np.zeros(256, np.uint64)
    killed = None
    for done, (_, (first, pixels, bins)) in enumerate(as_completed(tasks, with_results=True)):
        picture[first : first + rows] = pixels
        histogram += bins
        if kill and killed is None and done >= len(tasks) // 4:
            killed = next(iter(client.run(os.getpid).values()))
            os.kill(killed, signal.SIGKILL)
    return picture, histogram, killed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--parts", type=int, help="parts of the machine, of which each worker has one; without it, as many as workers")
    given = parser.parse_args()
    with LocalCluster(n_workers=given.workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.register_plugin(Placed(given.parts or given.workers))
        # Every worker's first band builds its programs.
        client.run(band, 0, given.rows, given.size)
        start = time.monotonic()
        picture, histogram, killed = render(client, given.size, given.rows, given.kill)
        seconds = time.monotonic() - start
    if histogram.sum() != (given.size * SAMPLES) ** 2:
        sys.exit(f"the histogram has {histogram.sum()} samples")
    # A row from each quarter; a rounding in another place tells few samples apart.
    for first in range(0, given.size, given.size // 4):
        ours, theirs = picture[first : first + 1].astype(int), by_numpy(first, 1, given.size).astype(int)
        agree = np.mean(abs(ours - theirs) <= 1)
        if agree < 0.99:
            sys.exit(f"row {first}: only {agree:.1%} of the pixels are the host's")
    digest = hashlib.sha256(picture.tobytes() + histogram.tobytes()).hexdigest()
    print(json.dumps({"workers": given.workers, "seconds": seconds, "killed": killed, "result": digest}))


if __name__ == "__main__":
    main()
