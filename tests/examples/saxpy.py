"""Runs a SPIR binary's kernel saxpy (y = a*x + y) through the ICD loader and checks every result.

pip install pyopencl numpy && python3 tests/examples/saxpy.py [tests/fixtures/bench/saxpy.bc64]
"""

import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

beside = Path(__file__).with_suffix(".bc64")
fixture = Path(__file__).parent / "../fixtures/bench/saxpy.bc64"
path = sys.argv[1] if len(sys.argv) > 1 else beside if beside.exists() else fixture
devices = [device for platform in cl.get_platforms() for device in platform.get_devices()]
device = next((device for device in devices if "cl_khr_spir" in device.extensions.split()), None)
if device is None:
    sys.exit("no device takes SPIR")

context = cl.Context([device])
queue = cl.CommandQueue(context)
program = cl.Program(context, [device], [Path(path).read_bytes()])
program.build("-x spir -spir-std=1.2")  # An error is raised with the build log.

x = np.arange(4096, dtype=np.float32)
y = np.ones_like(x)
flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
xs, ys = (cl.Buffer(context, flags, hostbuf=array) for array in (x, y))
program.saxpy(queue, x.shape, None, xs, ys, np.float32(2))
result = np.empty_like(y)
cl.enqueue_copy(queue, result, ys)

wrong = np.flatnonzero(result != 2 * x + y)
if wrong.size:
    i = wrong[0]
    sys.exit(f"y[{i}] is {result[i]} instead of {2 * x[i] + y[i]}")
print(f"{x.size} results are right")
