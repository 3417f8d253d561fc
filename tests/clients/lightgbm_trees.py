"""LightGBM's trees, whose histograms are kernels with atomics in local memory, against those that it grows on the CPU itself."""

import lightgbm
import numpy

from client import report

# Bins a feature: each has its kernels; in double, or in float.
WAYS = [(bins, precise) for bins in (15, 63, 255) for precise in (False, True)]


def error(device, bins, precise, points, values):
    """The mean square of what is left after fifteen trees."""
    options = {
        "objective": "regression",
        "device_type": device,
        "gpu_use_dp": precise,
        "max_bin": bins,
        "num_leaves": 63,
        "num_threads": 1,
        "seed": 1,
        "verbose": -1,
    }
    model = lightgbm.train(options, lightgbm.Dataset(points, values), 15)
    return float(numpy.mean((model.predict(points) - values) ** 2))


def main():
    random = numpy.random.default_rng(3)
    points = random.standard_normal((6000, 30)).astype(numpy.float32)
    values = points[:, 0] * points[:, 1] + numpy.sin(3 * points[:, 2]) + 0.1 * random.standard_normal(6000)
    for bins, precise in WAYS:
        expected, found = (error(device, bins, precise, points, values) for device in ("cpu", "gpu"))
        name = f"{bins} bins in {'double' if precise else 'float'}"
        # A sum that is rounded otherwise may divide a leaf elsewhere.
        report(name, abs(found - expected) < 0.02 * expected, f"error {found:.5f}, on the CPU {expected:.5f}")


main()
