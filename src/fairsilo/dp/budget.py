"""The budget (epsilon, delta) and the ledger of what was released against it.

Every release is a Gaussian mechanism: sums over rows plus normal noise of standard deviation
z * Delta, where Delta bounds how far one row moves the sums (in the Euclidean norm) and z is the
noise multiplier. Neighbouring tables differ by one added or removed row. Gaussian mechanisms
compose exactly: releases with multipliers z_i are together as private as one with

    1 / z^2 = sum_i 1 / z_i^2

so a plan hands out shares of 1/z^2, and "does one more release fit" is an addition. What was spent
is told by `dp-accounting` from the sequence of releases itself.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fairsilo.errors import FairSiloError

MARGIN = 1e-6
"""The part of the budget that is left unspent: dp-accounting rounds its sums up, and what it says
was spent must not be above what was promised."""
ROUNDING = 1e-9
"""Shares that add up to the budget may pass it by so much of it, from floating-point sums."""


class BudgetSpent(FairSiloError):
    """The next release would pass the budget; nothing of it has left the silo."""


@dataclass(frozen=True)
class Release:
    """One noisy answer: what it was, and its noise multiplier."""

    name: str
    multiplier: float

    @property
    def cost(self) -> float:
        """1 / z^2."""
        return self.multiplier**-2


@dataclass(frozen=True)
class Budget:
    """What may be spent: (epsilon, delta)-differential privacy of one row."""

    epsilon: float
    delta: float

    @property
    def total(self) -> float:
        """The largest sum of 1/z^2 that is still (epsilon, delta)-private."""
        return (1 - MARGIN) * smallest_multiplier(self.epsilon, self.delta) ** -2


@dataclass
class Ledger:
    """What one silo has released. It is charged before anything leaves, never after."""

    budget: Budget
    releases: list[Release] = field(default_factory=list)

    def fits(self, release: Release) -> bool:
        """Whether the release would stay within the budget."""
        return self.cost + release.cost <= self.budget.total * (1 + ROUNDING)

    def charge(self, release: Release) -> None:
        """Write the release down, or refuse it."""
        if not self.fits(release):
            raise BudgetSpent(
                f"releasing the {release.name} would pass the privacy budget of "
                f"({self.budget.epsilon:g}, {self.budget.delta:g}): raise --dp-epsilon or lower "
                "--rounds"
            )
        self.releases.append(release)

    @property
    def cost(self) -> float:
        """The sum of 1/z^2 so far."""
        return sum(one.cost for one in self.releases)

    @property
    def epsilon(self) -> float:
        """The epsilon of all releases so far, at the budget's delta."""
        return epsilon_of(tuple(self.releases), self.budget.delta)


def epsilon_of(releases: tuple[Release, ...], delta: float) -> float:
    """The epsilon at `delta` of the releases one after the other, by dp-accounting."""
    if not releases:
        return 0.0
    accounting, accountant = accountant_of_losses()
    counts = Counter(one.multiplier for one in releases)
    # Many equal releases are first made one, exactly, because composing them costs a convolution
    # for each; the tests compose one by one and get the same number.
    for multiplier, count in counts.items():
        accountant.compose(accounting.GaussianDpEvent(multiplier / math.sqrt(count)))
    return float(accountant.get_epsilon(delta))


@lru_cache(maxsize=64)
def smallest_multiplier(epsilon: float, delta: float) -> float:
    """The least noise multiplier with which a single release is (epsilon, delta)-private.

    The exact condition of the Gaussian mechanism (Balle and Wang, 2018): with m = 1/z,
    Phi(m/2 - epsilon/m) - e^epsilon Phi(-m/2 - epsilon/m) <= delta, which rises with m.
    """
    # Here, because a silo's processes without differential privacy come by and need none of it.
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def excess(m: float) -> float:
        lost = math.exp(epsilon + log_ndtr(-m / 2 - epsilon / m))
        return float(ndtr(m / 2 - epsilon / m) - lost - delta)

    # At m = 100 + 2 epsilon the mechanism hides nothing; at 1e-9 everything.
    return 1 / float(brentq(excess, 1e-9, 100 + 2 * epsilon, xtol=1e-14, rtol=1e-14))


def accountant_of_losses() -> tuple[Any, Any]:
    """dp-accounting, and its accountant by privacy loss distributions; or what to install."""
    try:
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
    except ImportError:
        raise FairSiloError(
            "differential privacy needs the package dp-accounting: pip install 'fairsilo[privacy]'"
        ) from None
    return dp_accounting, PLDAccountant()
