"""Gaussian noise on a grid, from the operating system's generator.

The weakness of textbook noise is floating point: the last bits of `sum + noise` can reveal the sum
(Mironov, 2012). Here a silo first rounds its sums to a grid of step g, a power of two far below the
noise, and adds noise rounded to the same grid. Multiples of g below 2^53 g are exact in float64, so
the addition is exact and no low bits leak: the result is the continuous mechanism X + Z, with X on
the grid, rounded afterwards. Rounding X moves every coordinate by up to g/2, which `padded` adds to
the sensitivity.
"""

import math
import os
from collections.abc import Callable

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.errors import FairSiloError

Source = Callable[[int], bytes]
"""Returns n random bytes. Only tests use another source than the operating system's."""

FINE = 24
"""The grid is this many powers of two below the noise's standard deviation."""
EXACT = 2.0**52


def normal(size: int, source: Source = os.urandom) -> Floats:
    """Standard normal numbers by Box and Muller from 53-bit uniforms; none exceeds 8.6."""
    half = (size + 1) // 2
    words = np.frombuffer(source(16 * half), dtype="<u8").reshape(2, half) >> np.uint64(11)
    uniform = (words + 1.0) * 2.0**-53
    radius = np.sqrt(-2 * np.log(uniform[0]))
    angle = 2 * np.pi * uniform[1]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size]


def grid(scale: float) -> float:
    """The step of the grid for noise of standard deviation `scale`."""
    return math.ldexp(1.0, math.floor(math.log2(scale)) - FINE)


def padded(sensitivity: float, size: int, step: float) -> float:
    """The sensitivity of `size` sums after they are rounded to a grid."""
    return sensitivity + step * math.sqrt(size)


def blur(values: Floats, scale: float, step: float, source: Source = os.urandom) -> Floats:
    """The values rounded to the grid, plus normal noise of `scale` rounded to the grid."""
    counts = np.rint(values / step)
    if not (np.abs(counts) < EXACT).all():
        raise FairSiloError(
            "a sum is too large beside its noise to be rounded exactly: lower `dp_epsilon` or give "
            "fewer rows to a silo"
        )
    noise = np.rint(normal(values.size, source).reshape(values.shape) * (scale / step))
    blurred: Floats = (counts + noise) * step
    return blurred
