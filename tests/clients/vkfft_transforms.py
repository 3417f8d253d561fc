"""VkFFT's transforms (PyPI's pyvkfft), whose kernels it writes for each length, against numpy's: powers of small primes, of others (Bluestein's and
Rader's ways), in several dimensions, real and complex, in both precisions."""

import numpy
import pyopencl
import pyopencl.array
from pyvkfft.opencl import VkFFTApp

from client import report

# Shape, dimensions that are transformed.
SHAPES = [
    ((64, 1024), 1),
    ((1 << 18,), 1),
    ((256, 243), 1),
    ((32, 1001), 1),
    ((32, 1009), 1),
    ((8, 4099), 1),
    ((256, 512), 2),
    ((96, 35), 2),
    ((32, 64, 48), 3),
]
# Of the largest value, by precision.
LIMITS = {numpy.dtype(numpy.complex64): 2e-6, numpy.dtype(numpy.complex128): 2e-15}


def error(found, expected):
    return float(numpy.abs(found - expected).max() / numpy.abs(expected).max())


def complex_errors(queue, values, dimensions):
    """Of a transform, and of the way back."""
    array = pyopencl.array.to_device(queue, values)
    transform = VkFFTApp(values.shape, values.dtype, queue=queue, ndim=dimensions)
    transform.fft(array)
    axes = tuple(range(-dimensions, 0))
    there = error(array.get(), numpy.fft.fftn(values.astype(numpy.complex128), axes=axes))
    transform.ifft(array)
    return there, error(array.get(), values)


def real_error(queue, values, dimensions):
    """Of a transform of real numbers, which yields half of what a complex one does."""
    array = pyopencl.array.to_device(queue, values)
    half = (*values.shape[:-1], values.shape[-1] // 2 + 1)
    complex_type = numpy.complex64 if values.dtype == numpy.float32 else numpy.complex128
    result = pyopencl.array.empty(queue, half, complex_type)
    VkFFTApp(values.shape, values.dtype, queue=queue, ndim=dimensions, r2c=True, inplace=False).fft(array, result)
    return error(result.get(), numpy.fft.rfftn(values.astype(numpy.float64), axes=tuple(range(-dimensions, 0))))


def main():
    queue = pyopencl.CommandQueue(pyopencl.create_some_context(interactive=False))
    random = numpy.random.default_rng(5)
    for shape, dimensions in SHAPES:
        for precision, limit in LIMITS.items():
            values = (random.random(shape) + 1j * random.random(shape)).astype(precision)
            there, back = complex_errors(queue, values, dimensions)
            real = real_error(queue, numpy.ascontiguousarray(values.real), dimensions)
            name = f"{' x '.join(map(str, shape))}, {dimensions} dimensions, {precision.name}"
            report(name, max(there, back, real) < limit, f"errors {there:.1e}, back {back:.1e}, real {real:.1e}")


main()
