"""What a silo does to its sums before they leave: count the cost, round, add its share of noise.

Under secure aggregation nobody sees less than a sum over t silos. Each silo then adds noise of
variance sigma^2 / t, so that any sum that can be opened has at least sigma^2, whoever drops out.
Without it each silo's message is seen alone, and each adds all of it (t = 1).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.dp.budget import Ledger, Release
from fairsilo.dp.noise import Source, blur, grid, padded
from fairsilo.errors import FairSiloError
from fairsilo.threshold import FEWEST, default_threshold


def smallest_sum(silos: int) -> int:
    """The fewest silos whose sum secure aggregation opens by default: floor(2N/3) + 1."""
    if silos < FEWEST:
        raise FairSiloError(
            f"secure aggregation hides nobody among {silos} clients: give at least {FEWEST}, or "
            "--dp-noise full, with which every client adds all of the noise"
        )
    return default_threshold(silos)


@dataclass(frozen=True, eq=False)
class Message:
    """Sums that are about to leave a silo, as they are: noise comes in `share`."""

    name: str
    values: Floats
    sensitivity: float
    """The farthest that one row moves the sums together."""
    multiplier: float
    """The standard deviation of the noise in units of the sensitivity."""

    @property
    def release(self) -> Release:
        """What the ledger notes of it."""
        return Release(self.name, self.multiplier)


def share(message: Message, smallest: int, silos: int = 1, source: Source = os.urandom) -> Floats:
    """What leaves: the sums and one silo's share of the noise, or the shares of several in one."""
    reach = message.sensitivity
    step = grid(message.multiplier * reach / math.sqrt(smallest))
    scale = message.multiplier * padded(reach, message.values.size, step)
    return blur(message.values, scale * math.sqrt(silos / smallest), step, source)


def deviation(sensitivity: float, multiplier: float, silos: int, smallest: int) -> float:
    """The standard deviation of the noise in a released sum over so many silos."""
    return multiplier * sensitivity * math.sqrt(silos / smallest)


@dataclass
class Mechanism:
    """The silos' noise and their ledgers, which are all alike: each answers every question."""

    ledger: Ledger
    silos: int
    smallest: int
    """t, the fewest silos whose sum may be opened; 1 without secure aggregation."""
    source: Source = os.urandom
    numbers: int = 0
    """How many numbers each silo has sent."""

    def release(self, messages: Sequence[Message]) -> Floats:
        """The sum of what the silos send, noise and all.

        One message per silo; or one for all of them together, which then carries the noise of all
        their shares: the same distribution for less work.
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
