"""The budget (epsilon, delta) and the ledger of the releases charged to it.

Every release is a Gaussian mechanism: sums over rows plus normal noise of standard deviation
z * Delta, where Delta bounds how far one row moves the sums (in the Euclidean norm) and z is the
noise multiplier. Neighbouring tables differ by one added or removed row. Gaussian mechanisms
compose exactly: releases with multipliers z_i are together as private as one with

    1 / z^2 = sum_i 1 / z_i^2

so a plan hands out shares of 1/z^2, and checking whether one more release fits is an addition. The
epsilon of that one mechanism is computed by `dp-accounting`; for somebody with k rows, who moves
the sums k times as far, it is that of the multiplier z / k.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fairsilo.errors import FairSiloError
from fairsilo.extras import install

MARGIN = 1e-6
"""The part of the budget left unspent: noise on a grid is not quite normal noise (docs/privacy.md),
and the epsilon that an accountant computes must not exceed the budget."""
LARGEST = 100.0
"""The largest epsilon of a promise: e^100 to one promises nothing."""
ROUNDING = 1e-9
"""Relative excess over the budget that is allowed for rounding when shares are added up."""


class BudgetSpent(FairSiloError):
    """The next release would exceed the budget; it has not left the silo."""


@dataclass(frozen=True)
class Release:
    """One noisy answer: its name and its noise multiplier."""

    name: str
    multiplier: float

    @property
    def cost(self) -> float:
        """1 / z^2."""
        return self.multiplier**-2


@dataclass(frozen=True)
class Budget:
    """The (epsilon, delta)-differential privacy that is guaranteed to each row."""

    epsilon: float
    delta: float

    @property
    def total(self) -> float:
        """The largest sum of 1/z^2 that is still (epsilon, delta)-private."""
        return (1 - MARGIN) * smallest_multiplier(self.epsilon, self.delta) ** -2


@dataclass
class Ledger:
    """One silo's releases. Each is charged before it leaves the silo."""

    budget: Budget
    releases: list[Release] = field(default_factory=list)

    def fits(self, release: Release) -> bool:
        """Whether the release would stay within the budget."""
        return self.cost + release.cost <= self.budget.total * (1 + ROUNDING)

    def charge(self, release: Release) -> None:
        """Record the release, or raise BudgetSpent."""
        if not self.fits(release):
            raise BudgetSpent(
                f"releasing the {release.name} would pass the privacy budget of "
                f"({self.budget.epsilon:g}, {self.budget.delta:g}): raise `dp_epsilon` or lower "
                "`rounds`"
            )
        self.releases.append(release)

    @property
    def cost(self) -> float:
        """The sum of 1/z^2 so far."""
        return sum(one.cost for one in self.releases)

    @property
    def epsilon(self) -> float:
        """The epsilon of all releases so far, at the budget's delta."""
        return self.epsilon_of_rows(1)

    def epsilon_of_rows(self, rows: int) -> float:
        """The epsilon of somebody who has so many rows, at the budget's delta."""
        return epsilon_of(tuple(self.releases), self.budget.delta, rows)


def epsilon_of(releases: tuple[Release, ...], delta: float, rows: int = 1) -> float:
    """The epsilon at `delta` of all releases composed, for somebody with so many rows."""
    if not releases:
        return 0.0
    composed = sum(one.cost for one in releases) ** -0.5
    return float(accountant().get_epsilon_gaussian(composed / rows, delta))


@lru_cache(maxsize=64)
def smallest_multiplier(epsilon: float, delta: float) -> float:
    """The smallest noise multiplier with which a single release is (epsilon, delta)-private.

    The exact condition of the Gaussian mechanism (Balle and Wang, 2018): with m = 1/z,
    Phi(m/2 - epsilon/m) - e^epsilon Phi(-m/2 - epsilon/m) <= delta, which rises with m.
    """
    # Imported lazily: non-private silos load this module, too, and do not need SciPy.
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def excess(m: float) -> float:
        lost = math.exp(epsilon + log_ndtr(-m / 2 - epsilon / m))
        return float(ndtr(m / 2 - epsilon / m) - lost - delta)

    # At m = 100 + 2 epsilon the mechanism hides nothing; at 1e-9 everything.
    return 1 / float(brentq(excess, 1e-9, 100 + 2 * epsilon, xtol=1e-14, rtol=1e-14))


def accountant() -> Any:
    """The package dp-accounting; an error if it is not installed."""
    try:
        import dp_accounting
    except ImportError:
        raise FairSiloError(
            f"differential privacy needs the package dp-accounting: {install('privacy')}"
        ) from None
    return dp_accounting
