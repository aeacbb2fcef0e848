"""Sums on a grid, plus discrete Gaussian noise on the same grid.

The weakness of textbook noise is floating point: the last bits of `sum + noise` can reveal the sum
(Mironov, 2012). Here a silo rounds its sums to a grid of step g, a power of two far below the
noise, and adds whole multiples of g (`gaussian`). Multiples of g below 2^53 g are exact in float64,
so all additions are exact, over silos as well, and there are no low bits. Rounding moves every sum
by up to g/2, which `padded` adds to the sensitivity.
"""

import math
import os

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp.gaussian import Source, discrete_gaussian
from fairsilo.errors import FairSiloError

FINE = 24
"""The grid is this many powers of two below the noise's standard deviation."""
EXACT = 2.0**52


def grid(scale: float) -> float:
    """The step of the grid for noise of standard deviation `scale`."""
    return math.ldexp(1.0, math.floor(math.log2(scale)) - FINE)


def padded(sensitivity: float, size: int, step: float) -> float:
    """The sensitivity of `size` sums after they are rounded to a grid."""
    return sensitivity + step * math.sqrt(size)


def blur(values: Floats, scale: float, step: float, source: Source = os.urandom) -> Floats:
    """The values rounded to the grid, plus noise of at least `scale`, in whole steps."""
    counts = np.rint(values / step)
    if not (np.abs(counts) < EXACT).all():
        raise FairSiloError(
            "a sum is too large beside its noise to be rounded exactly: lower `dp_epsilon` or give "
            "fewer rows to a silo"
        )
    noise = discrete_gaussian(values.size, math.ceil(scale / step), source)
    blurred: Floats = (counts + noise.reshape(values.shape).astype(np.float64)) * step
    return blurred
