"""What an engine is given and what it leaves: an `Outcome` with the history of the rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.solver.base import Order, Record, Status

Watch = Callable[[int, Record], None]
"""Called as rounds go by with the number of rounds so far and the last one's record."""


@dataclass(frozen=True)
class Outcome:
    """Where a solver ended."""

    theta: Floats
    status: Status
    rounds: int
    history: Record
    """Arrays with one entry per round."""

    @property
    def last(self) -> Record:
        """The record of the last round."""
        return Record(*(np.asarray(values)[-1] for values in vars(self.history).values()))


def numbers_up(order: Order, parameters: int, constraints: int) -> int:
    """How many numbers one silo sends per round; of the Hessian, one triangle."""
    if order is Order.LAGRANGIAN:
        return 1 + constraints + parameters
    first = (1 + constraints) * (1 + parameters)
    triangle = parameters * (parameters + 1) // 2
    return first + (triangle if order is Order.SECOND else 0)


def numbers_down(parameters: int, constraints: int) -> int:
    """How many numbers one silo receives per round: theta and mu."""
    return parameters + constraints
