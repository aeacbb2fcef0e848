"""The sums that an evaluation needs: counts and losses per cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairsilo.arrays import Floats, Ints


@dataclass(frozen=True)
class Tally:
    """Sums over rows; tallies of silos add up to the tally of all rows."""

    counts: Ints
    """(groups, classes, predicted classes)."""
    losses: Floats
    """Sum of row losses, (groups, classes)."""
    squares: Floats
    """Sum of squared row losses, (groups, classes), for the variance of their mean."""
    claimed: Floats | None = None
    """Sums of the losses that a group's rows would have if they were of a class, and of their
    squares, (2, groups, classes); None if not requested. Demographic parity compares these."""
    scores: Ints | None = None
    """Histograms of probabilities, (groups, classes asked about, 2, cells), see `scores`; None if
    not requested."""

    def __add__(self, other: Tally) -> Tally:
        both = self.claimed is not None and other.claimed is not None
        scored = self.scores is not None and other.scores is not None
        return Tally(
            self.counts + other.counts,
            self.losses + other.losses,
            self.squares + other.squares,
            self.claimed + other.claimed if both else None,  # type: ignore[operator]
            self.scores + other.scores if scored else None,  # type: ignore[operator]
        )

    @classmethod
    def of(
        cls, y: Ints, s: Ints, predicted: Ints, loss: Floats, *, groups: int, classes: int
    ) -> Tally:
        """Count rows by group, class and predicted class, and sum their losses."""
        cell = s * classes + y
        counts = np.bincount(cell * classes + predicted, minlength=groups * classes * classes)
        with np.errstate(over="ignore"):
            squared = loss**2
        losses, squares = (
            np.bincount(cell, weights=values, minlength=groups * classes).astype(np.float64)
            for values in (loss, squared)
        )
        return cls(
            counts.reshape(groups, classes, classes),
            losses.reshape(groups, classes),
            squares.reshape(groups, classes),
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
    ) -> list[Tally]:
        """One tally per client; client i holds the rows offsets[i] to offsets[i+1]."""
        clients = len(offsets) - 1
        group = s + groups * np.repeat(np.arange(clients), np.diff(offsets))
        all_groups = clients * groups
        whole = cls.of(y, group, predicted, loss, groups=all_groups, classes=classes)
        each = (
            part.reshape(clients, groups, *part.shape[1:])
            for part in (whole.counts, whole.losses, whole.squares)
        )
        return [cls(*parts) for parts in zip(*each, strict=True)]

    @property
    def cells(self) -> Ints:
        """Rows per (group, class)."""
        cells: Ints = self.counts.sum(axis=2)
        return cells

    @property
    def right(self) -> Ints:
        """Rows per (group, class) whose class is predicted correctly."""
        right: Ints = np.einsum("gcc->gc", self.counts)
        return right
