#!/usr/bin/env python3
"""Writes double.txt: true values of the double functions, computed by mpmath to 400 bits or more.

A line is `name x [y] high low`: bits of doubles in hexadecimal (n of pown and rootn in decimal); the truth is
high + low, so that errors below an ULP can be measured. Run: python3 generate.py [points per function] > double.txt
"""
import random
import struct
import sys

from mpmath import mp, mpf
import mpmath as m

POINTS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
random.seed(7)


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def from_bits(n):
    return struct.unpack("<d", struct.pack("<Q", n))[0]


def pair(value):
    """The truth as two doubles; denormal and infinite as it rounds."""
    if m.isnan(value):
        return float("nan"), 0.0
    high = float(value)
    if high in (float("inf"), float("-inf")):
        return high, 0.0
    return high, float(value - mpf(high))


def log_spaced(low, high):
    """Sizes over an interval, evenly by exponent, and some evenly by value."""
    def draw():
        if random.random() < 0.3:
            return random.uniform(low, high)
        a = m.log(mpf(low)) if low > 0 else mpf(-700)
        return float(m.exp(random.uniform(float(a), float(m.log(mpf(high))))))
    return draw


def both(draw):
    return lambda: draw() * random.choice((-1, 1))


def any_bits():
    while True:
        x = from_bits(random.getrandbits(64))
        if x == x and abs(x) != float("inf"):
            return x


def near_multiples():
    """Doubles close to multiples of pi/2, the hard case of argument reduction."""
    k = random.randint(1, 10 ** random.randint(1, 18))
    return float(k * m.pi / 2)


def mix(*draws):
    return lambda: random.choice(draws)()


def sinpi(x):
    r = m.fmod(x, 2)
    return m.sin(m.pi * r)


def rootn(x, n):
    size = m.exp(m.log(abs(mpf(x))) / n)
    return -size if x < 0 else size


MODERATE = both(log_spaced(1e-9, 50.0))
ANGLE = mix(MODERATE, both(log_spaced(1e-3, 1e9)), near_multiples, any_bits)
UNIT = both(log_spaced(1e-12, 1.0))
POSITIVE = mix(lambda: abs(any_bits()), log_spaced(0.3, 3.0), lambda: 1 + random.uniform(-1e-6, 1e-6))
UNARY = {
    "acos": (UNIT, m.acos), "acosh": (mix(log_spaced(1.0, 1e3), lambda: 1 + random.random() * 1e-7,
                                         log_spaced(1e9, 1e300)), m.acosh),
    "acospi": (UNIT, lambda x: m.acos(x) / m.pi), "asin": (UNIT, m.asin),
    "asinh": (mix(MODERATE, any_bits), m.asinh), "asinpi": (UNIT, lambda x: m.asin(x) / m.pi),
    "atan": (mix(MODERATE, any_bits), m.atan), "atanh": (UNIT, m.atanh),
    "atanpi": (mix(MODERATE, any_bits), lambda x: m.atan(x) / m.pi),
    "cbrt": (any_bits, lambda x: m.sign(x) * m.exp(m.log(abs(mpf(x))) / 3)),
    "cos": (ANGLE, m.cos), "cosh": (mix(MODERATE, both(log_spaced(1, 711))), m.cosh),
    "cospi": (both(log_spaced(1e-9, 1e6)), lambda x: m.cos(m.pi * m.fmod(x, 2))),
    "erf": (both(log_spaced(1e-9, 7.0)), m.erf), "erfc": (both(log_spaced(1e-9, 27.5)), m.erfc),
    "exp": (mix(MODERATE, both(log_spaced(1, 746))), m.exp),
    "exp10": (both(log_spaced(1e-9, 324)), lambda x: m.power(10, x)),
    "exp2": (both(log_spaced(1e-9, 1076)), lambda x: m.power(2, x)),
    "expm1": (mix(MODERATE, both(log_spaced(1e-3, 2.0)), log_spaced(1, 709)), m.expm1),
    "lgamma": (mix(log_spaced(1e-9, 30.0), log_spaced(1, 1e300), lambda: -random.uniform(0, 50)),
               lambda x: m.re(m.loggamma(x))),
    "log": (POSITIVE, m.log), "log10": (POSITIVE, lambda x: m.log(x) / m.log(10)),
    "log1p": (mix(log_spaced(1e-12, 1e3), lambda: -random.random(), lambda: abs(any_bits())), m.log1p),
    "log2": (POSITIVE, lambda x: m.log(x) / m.log(2)),
    "sin": (ANGLE, m.sin), "sinh": (mix(MODERATE, both(log_spaced(1, 711))), m.sinh),
    "sinpi": (both(log_spaced(1e-9, 1e6)), sinpi), "tan": (ANGLE, m.tan), "tanh": (MODERATE, m.tanh),
    "tanpi": (both(log_spaced(1e-9, 1e6)), lambda x: m.tan(m.pi * m.fmod(x, 1))),
    "tgamma": (mix(log_spaced(1e-9, 171.6), lambda: -random.uniform(0, 180), both(log_spaced(1e-9, 3.0))), m.gamma),
}
FREE = (mix(MODERATE, any_bits), mix(MODERATE, any_bits))
NEAR = (log_spaced(0.01, 100.0), both(log_spaced(0.01, 100.0)))
EDGE = (lambda: 1 + random.uniform(-1e-3, 1e-3), both(log_spaced(1, 7e5)))
BINARY = {
    "atan2": ([FREE], m.atan2), "atan2pi": ([FREE], lambda y, x: m.atan2(y, x) / m.pi),
    "hypot": ([FREE], m.hypot), "pow": ([NEAR, EDGE], m.power), "powr": ([NEAR, EDGE], m.power),
}
WITH_INTEGER = {
    "pown": ([(MODERATE, lambda: random.randint(-30, 30)), (EDGE[0], lambda: random.randint(-10 ** 6, 10 ** 6))],
             lambda x, n: m.power(x, n)),
    "rootn": ([(any_bits, lambda: 2 * random.randint(-20, 20) + 1)], rootn),
}


def line(name, x, middle, truth):
    high, low = pair(truth)
    print(name, f"{bits(x):x}", *middle, f"{bits(high):x}", f"{bits(low):x}")


mp.prec = 1400
for name, (draw, function) in UNARY.items():
    mp.prec = 1400 if name in ("sin", "cos", "tan") else 400
    for _ in range(POINTS):
        x = draw()
        line(name, x, [], function(mpf(x)))
mp.prec = 400
for name, (draws, function) in BINARY.items():
    for _ in range(POINTS):
        x, y = (draw() for draw in random.choice(draws))
        if function is m.atan2 and abs(y) > 1e250 * abs(x):
            continue
        line(name, x, [f"{bits(y):x}"], function(mpf(x), mpf(y)))
for name, (draws, function) in WITH_INTEGER.items():
    for _ in range(POINTS):
        x, n = (draw() for draw in random.choice(draws))
        line(name, x, [str(n)], function(mpf(x), n))
