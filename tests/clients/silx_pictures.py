"""A plugin of pytest's: pictures in place of those that scipy downloads, of the same sizes, with edges, waves and spots."""

import numpy
import scipy.datasets


def ascent():
    rows, columns = numpy.mgrid[0:512, 0:512]
    random = numpy.random.default_rng(5)
    picture = 120 + 60 * numpy.sin(columns / 17) * numpy.cos(rows / 23) + 40 * ((columns // 64 + rows // 64) % 2)
    for _ in range(60):
        x, y, size, height = random.uniform((20, 20, 2, -70), (490, 490, 9, 70))
        picture += height * numpy.exp(-((columns - x) ** 2 + (rows - y) ** 2) / (2 * size**2))
    return numpy.clip(picture, 0, 255).astype(numpy.uint8)


def face(gray=False):
    picture = numpy.kron(ascent(), numpy.ones((2, 2), numpy.uint8))[:768]
    return picture if gray else numpy.stack([picture, picture[::-1], picture[:, ::-1]], -1)


scipy.datasets.ascent = ascent
scipy.datasets.face = face
