"""What both examples share: which processors a worker has, and Spirula's device with a kernel out of a SPIR binary."""

import os
from pathlib import Path

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures/bench"


def processors(text):
    """Those of a list like `0-3,8`."""
    ranges = [part.split("-") for part in text.strip().split(",") if part]
    return [processor for ends in ranges for processor in range(int(ends[0]), int(ends[-1]) + 1)]


def share(worker, workers):
    """The processors of one of so many workers on this machine: a NUMA node each, or several or a part of one."""
    allowed = os.sched_getaffinity(0)
    lists = sorted(Path("/sys/devices/system/node").glob("node[0-9]*/cpulist"))
    nodes = [[cpu for cpu in processors(path.read_text()) if cpu in allowed] for path in lists]
    nodes = [node for node in nodes if node] or [sorted(allowed)]
    if workers <= len(nodes):
        return [cpu for node in nodes[worker::workers] for cpu in node]
    node = nodes[worker % len(nodes)]
    others = [other for other in range(workers) if other % len(nodes) == worker % len(nodes)]
    part = node[others.index(worker) :: len(others)]
    return part or node


def stay_on(cpus):
    """Keeps all threads of this process on these processors. The device has a compute unit for each."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cpus)


class Device:
    """Spirula's device with a queue, and programs that are built once."""

    def __init__(self):
        import pyopencl as cl

        platforms = [platform for platform in cl.get_platforms() if platform.name == "Spirula"]
        if not platforms:
            raise RuntimeError("the OpenCL loader finds no Spirula: see OCL_ICD_VENDORS")
        self.context = cl.Context(platforms[0].get_devices())
        self.queue = cl.CommandQueue(self.context)
        self.kernels = {}

    def kernel(self, path, name):
        """A kernel of a file of SPIR."""
        import pyopencl as cl

        if path not in self.kernels:
            program = cl.Program(self.context, self.context.devices, [Path(path).read_bytes()])
            self.kernels[path] = cl.Kernel(program.build("-x spir -spir-std=1.2"), name)
        return self.kernels[path]
