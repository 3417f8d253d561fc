"""What devices there are."""
import pyopencl as cl

for platform in cl.get_platforms():
    for device in platform.get_devices():
        print(f"{platform.name}: {device.name}, {device.max_compute_units} compute units, {device.version}")
