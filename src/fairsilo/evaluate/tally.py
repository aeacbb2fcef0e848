"""The sums that an evaluation needs: counts and losses per cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints


@dataclass(frozen=True)
class Tally:
    """Sums over rows; tallies of silos add up to the tally of all rows."""

    counts: Any
    """(groups, classes, predicted classes); where rows have weights, the sums of these, and so
    below."""
    losses: Floats
    """Sum of row losses, (groups, classes)."""
    squares: Floats
    """Sum of squared row losses, (groups, classes), for the variance of their mean."""
    claimed: Floats | None = None
    """Sums of the losses that a group's rows would have if they were of a class, and of their
    squares, (2, groups, classes); None if not requested. Demographic parity compares these."""
    scores: Any = None
    """Histograms of probabilities, (groups, classes asked about, 2, cells), see `scores`; None if
    not requested."""
    rows: Ints | None = None
    """How many rows there are, (groups, classes); None: each weighs one, so `cells` says it."""
    spread: Floats | None = None
    """Sums of squared weights, (groups, classes); None likewise."""

    def __add__(self, other: Tally) -> Tally:
        both = self.claimed is not None and other.claimed is not None
        scored = self.scores is not None and other.scores is not None
        weighted = self.rows is not None and other.rows is not None
        return Tally(
            self.counts + other.counts,
            self.losses + other.losses,
            self.squares + other.squares,
            self.claimed + other.claimed if both else None,  # type: ignore[operator]
            self.scores + other.scores if scored else None,
            self.rows + other.rows if weighted else None,  # type: ignore[operator]
            self.spread + other.spread if weighted else None,  # type: ignore[operator]
        )

    @classmethod
    def of(
        cls,
        y: Ints,
        s: Ints,
        predicted: Ints,
        loss: Floats,
        *,
        groups: int,
        classes: int,
        weight: Floats | None = None,
    ) -> Tally:
        """Count rows by group, class and predicted class, and sum their losses."""
        cell, cells = s * classes + y, groups * classes
        counts = np.bincount(cell * classes + predicted, weight, minlength=cells * classes)
        times = 1.0 if weight is None else weight
        with np.errstate(over="ignore"):
            squared = times * loss**2

        def summed(values: Any) -> Any:
            return np.bincount(cell, values, minlength=cells).reshape(groups, classes)

        return cls(
            counts.reshape(groups, classes, classes),
            summed(times * loss).astype(np.float64),
            summed(squared).astype(np.float64),
            rows=None if weight is None else summed(None),
            spread=None if weight is None else summed(weight**2),
        )

    @classmethod
    def of_clients(
        cls,
        y: Ints,
        s: Ints,
        predicted: Ints,
        loss: Floats,
        *,
        offsets: Ints,
        groups: int,
        classes: int,
        weight: Floats | None = None,
    ) -> list[Tally]:
        """One tally per client; client i holds the rows offsets[i] to offsets[i+1]."""
        clients = len(offsets) - 1
        group = s + groups * np.repeat(np.arange(clients), np.diff(offsets))
        shape = {"groups": clients * groups, "classes": classes}
        whole = cls.of(y, group, predicted, loss, **shape, weight=weight)
        each = {
            name: part.reshape(clients, groups, *part.shape[1:])
            for name, part in vars(whole).items()
            if part is not None
        }
        return [cls(**{name: part[k] for name, part in each.items()}) for k in range(clients)]

    @property
    def cells(self) -> Any:
        """Rows per (group, class)."""
        return self.counts.sum(axis=2)

    @property
    def right(self) -> Any:
        """Rows per (group, class) whose class is predicted correctly."""
        return np.einsum("gcc->gc", self.counts)

    @property
    def size(self) -> int:
        """How many rows there are, whatever they weigh."""
        return int(self.counts.sum() if self.rows is None else self.rows.sum())

    @property
    def effective(self) -> Tally:
        """In units in which intervals hold: (sum u)^2 / sum u^2 rows in all (Kish 1965).

        Rows of different weights say as much as so many of the same weight. Rates and means stay.
        """
        if self.spread is None or not self.spread.sum():
            return self
        scale = self.counts.sum() / self.spread.sum()
        scaled: dict[str, Any] = {
            name: None if part is None else part * scale
            for name, part in vars(self).items()
            if name not in ("rows", "spread")
        }
        return Tally(**scaled, rows=self.rows, spread=self.spread * scale**2)
