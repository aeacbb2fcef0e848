"""How a budget is divided before training begins.

    encoder      the encoder's sums, and the row counts of the cells
    objective    the gradients of every round, and one curvature matrix
    constraint   the losses of the cells in every round (for the D_k), and those of the final model

The three shares are of 1/z^2 (see `budget`). All R rounds get equal parts.
"""

from dataclasses import dataclass
from typing import Self

from fairsilo.dp.budget import Budget
from fairsilo.errors import FairSiloError

COUNTS = 0.3
"""The part of the encoder's share for the row counts."""
CURVATURE = 0.2
"""The part of the objective's share for the curvature, if the solver asks for it."""
FINAL = 0.2
"""The part of the constraint's share for measuring the trained model."""


@dataclass(frozen=True)
class Split:
    """Shares of the budget; they add up to one."""

    encoder: float = 0.1
    objective: float = 0.75
    constraint: float = 0.15

    def __post_init__(self) -> None:
        shares = (self.encoder, self.objective, self.constraint)
        if not all(0 < share < 1 for share in shares) or abs(sum(shares) - 1) > 1e-9:
            raise FairSiloError(
                f"`dp_split` {','.join(f'{share:g}' for share in shares)} is not three shares "
                "above 0 that add up to 1 (encoder, objective, constraint), such as 0.1,0.75,0.15"
            )


@dataclass(frozen=True)
class Clip:
    """Bounds on what one row adds to a sum: its gradient, loss and curvature."""

    gradient: float = 1.0
    """The largest Euclidean norm of a row's gradient; longer ones are shortened to it."""
    loss: float = 4.0
    """The largest loss of a row; larger ones count as this."""

    @property
    def curvature(self) -> float:
        """The largest trace of a row's curvature matrix; larger ones are scaled down to it."""
        return self.gradient**2


@dataclass(frozen=True)
class Plan:
    """The noise multiplier of every kind of release."""

    encoder: float
    counts: float
    curvature: float
    gradient: float
    loss: float
    final: float

    @classmethod
    def of(cls, budget: Budget, split: Split, rounds: int, curvature: bool) -> Self:
        """Divide the whole budget over `rounds` rounds, with or without a curvature matrix."""
        once = CURVATURE * curvature

        def multiplier(share: float) -> float:
            return (budget.total * share) ** -0.5 if share else float("inf")

        return cls(
            encoder=multiplier(split.encoder * (1 - COUNTS)),
            counts=multiplier(split.encoder * COUNTS),
            curvature=multiplier(split.objective * once),
            gradient=multiplier(split.objective * (1 - once) / rounds),
            loss=multiplier(split.constraint * (1 - FINAL) / rounds),
            final=multiplier(split.constraint * FINAL),
        )
