"""The array types that all parts share, and sums that are made of several."""

from dataclasses import fields
from typing import Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Summed:
    """The base of dataclasses that are added field by field: the sums of several silos."""

    def __add__(self, other: Self) -> Self:
        names = [one.name for one in fields(self)]  # type: ignore[arg-type]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))
