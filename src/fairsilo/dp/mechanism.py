"""Make a silo's sums private before they leave: charge the ledger, round, add a share of noise.

Under secure aggregation only sums over at least t silos are ever seen. Each silo adds noise of
variance sigma^2 / t, so that any such sum has at least sigma^2, whichever silos drop out. Without
secure aggregation each silo's message is seen alone, and each adds all of the noise (t = 1).
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp.budget import Ledger, Release
from fairsilo.dp.gaussian import Source
from fairsilo.dp.noise import blur, grid, padded


@dataclass(frozen=True, eq=False)
class Message:
    """Sums that are about to leave a silo, still without noise; `share` adds it."""

    name: str
    values: Floats
    sensitivity: float
    """The largest Euclidean norm by which one row moves the sums."""
    multiplier: float
    """The standard deviation of the noise in units of the sensitivity."""

    @property
    def release(self) -> Release:
        """The ledger's entry for this message."""
        return Release(self.name, self.multiplier)


def share(message: Message, smallest: int, silos: int = 1, source: Source = os.urandom) -> Floats:
    """The sums plus the noise shares of `silos` silos, rounded: what leaves the silo."""
    part = message.multiplier * math.sqrt(silos / smallest)
    step = grid(part * message.sensitivity)
    reach = padded(message.sensitivity, message.values.size, step)
    return blur(message.values, part * reach, step, source)


def deviation(sensitivity: float, multiplier: float, silos: int, smallest: int) -> float:
    """The standard deviation of the noise in a released sum over `silos` silos."""
    return multiplier * sensitivity * math.sqrt(silos / smallest)


@dataclass
class Mechanism:
    """The silos' noise and one ledger for all: every silo answers every query, so all are equal."""

    ledger: Ledger
    silos: int
    smallest: int
    """t, the fewest silos whose sum may be opened; 1 without secure aggregation."""
    source: Source = os.urandom
    numbers: int = 0
    """How many numbers each silo has sent."""

    def release(self, messages: Sequence[Message]) -> Floats:
        """The sum of the silos' messages with noise.

        Takes one message per silo, or one for all silos, to which the noise of all their shares is
        added at once: the same distribution for less work.
        """
        first = messages[0]
        self.ledger.charge(first.release)
        self.numbers += first.values.size
        together = self.silos // len(messages)
        sent = [share(one, self.smallest, together, self.source) for one in messages]
        total: Floats = np.sum(sent, axis=0)
        return total

    def deviation(self, sensitivity: float, multiplier: float) -> float:
        """The standard deviation of the noise in a released sum over all silos."""
        return deviation(sensitivity, multiplier, self.silos, self.smallest)
