"""Runs OpenCL C source and checks every result."""
import numpy as np
import pyopencl as cl

[device] = [device for platform in cl.get_platforms() for device in platform.get_devices() if platform.name == "Spirula"]
context = cl.Context([device])
queue = cl.CommandQueue(context)
x = np.arange(1 << 16, dtype=np.float32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
source = "kernel void square(global float *x) { size_t i = get_global_id(0); x[i] *= x[i]; }"
cl.Program(context, source).build().square(queue, x.shape, None, buffer)
result = np.empty_like(x)
cl.enqueue_copy(queue, result, buffer)
assert (result == x * x).all(), result
print(f"{x.size} squares of an OpenCL C kernel are right")
