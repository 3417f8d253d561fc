"""tinygrad's OpenCL back end: operations against numpy, and a small network that learns."""

import os

os.environ["DEV"] = "CL"

import numpy  # noqa: E402
from tinygrad import Context, Tensor  # noqa: E402
from tinygrad.nn.optim import Adam  # noqa: E402

from client import report  # noqa: E402


def close(what, found, expected, limit=1e-4):
    error = float(numpy.max(numpy.abs(found.numpy() - expected)))
    report(what, error <= limit, f"largest difference {error:.1e}")


def operations(random):
    a = random.standard_normal((96, 64), dtype=numpy.float32)
    b = random.standard_normal((64, 80), dtype=numpy.float32)
    close("matmul", Tensor(a, device="CL") @ Tensor(b, device="CL"), a @ b)
    exponents = numpy.exp(a - a.max(1, keepdims=True))
    close("softmax", Tensor(a, device="CL").softmax(), exponents / exponents.sum(1, keepdims=True))
    image = random.standard_normal((1, 1, 20, 20), dtype=numpy.float32)
    weights = random.standard_normal((1, 1, 3, 3), dtype=numpy.float32)
    expected = sum(image[0, 0, i : i + 18, j : j + 18] * weights[0, 0, i, j] for i in range(3) for j in range(3))
    close("conv2d", Tensor(image, device="CL").conv2d(Tensor(weights, device="CL")), expected[None, None])
    close("cumsum", Tensor(a, device="CL").cumsum(0), a.cumsum(0), 1e-3)


def learns(random):
    """Whether a point lies in a ring: no line divides the two classes."""
    points = random.uniform(-1, 1, (512, 2)).astype(numpy.float32)
    radius = numpy.hypot(points[:, 0], points[:, 1])
    classes = ((radius > 0.4) & (radius < 0.8)).astype(numpy.int32)
    x, y = Tensor(points, device="CL"), Tensor(classes, device="CL")
    shapes = {(2, 64): 4, (64, 64): 0.3, (64, 2): 0.3}
    layers = [
        Tensor.uniform(*shape, low=-size, high=size, device="CL").contiguous().realize() for shape, size in shapes.items()
    ]
    for layer in layers:
        layer.requires_grad = True
    optimizer = Adam(layers, lr=0.01)

    def network():
        return ((x @ layers[0]).sin() @ layers[1]).relu() @ layers[2]

    losses = []
    with Context(TRAINING=1):
        for _ in range(150):
            optimizer.zero_grad()
            loss = network().sparse_categorical_crossentropy(y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    right = float((network().argmax(1) == y).mean().item())
    report("a network learns", right > 0.9, f"loss {losses[0]:.2f} to {losses[-1]:.3f}, {right:.1%} right")


Tensor.manual_seed(1)
operations(numpy.random.default_rng(1))
learns(numpy.random.default_rng(2))
