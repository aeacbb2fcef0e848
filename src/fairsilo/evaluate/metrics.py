"""Accuracy and fairness from a tally. Undefined values are None, never NaN.

    DEO      = | P(predicted c | a, c) - P(predicted c | b, c) |     (the paper's equation 23)
    fairness = 1 - DEO
    HM       = harmonic mean of accuracy and fairness
    DGEO     = | mean loss of (a, c) - mean loss of (b, c) |

With several constraints DEO and DGEO are the largest over them. For another notion of fairness
the loss gap is its D, and `rate_gap` compares the rates of correct predictions or, with a claim,
the rates at which the claimed class is predicted.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.evaluate.intervals import Moments
from fairsilo.evaluate.scores import overall
from fairsilo.evaluate.tally import Tally
from fairsilo.fairness.constraint import Constraint


def accuracy(tally: Tally) -> float | None:
    """Share of rows whose class is predicted correctly."""
    total = tally.counts.sum()
    return float(np.einsum("gcc->", tally.counts) / total) if total else None


def balanced_accuracy(tally: Tally) -> float | None:
    """Share of rows predicted right within a class, averaged over the classes that occur."""
    by_class = tally.counts.sum(axis=0)
    size = by_class.sum(axis=1)
    if not size.any():
        return None
    return float(np.mean(np.diagonal(by_class)[size > 0] / size[size > 0]))


def loss(tally: Tally) -> float | None:
    """Mean loss of all rows."""
    total = tally.counts.sum()
    return finite(tally.losses.sum() / total) if total else None


Side = tuple[float, float, float]
"""Rows on a side of a constraint, sum of a value over them, and sum of its squares; of rows with
weights as many as say as much (see `Tally.effective`), and the sums in proportion."""


def loss_sides(tally: Tally, pair: Constraint) -> list[Side]:
    """The sides that there are, with the losses of their rows; none where nobody knows them."""
    total, squares = tally.losses, tally.squares
    if pair.claim is not None:
        if tally.claimed is None:
            return [(0, 0.0, 0.0)]
        # The losses under a claim are those of all classes together: put them into one column.
        total, squares = np.zeros((2, *tally.losses.shape))
        total[:, 0], squares[:, 0] = tally.claimed[:, :, pair.claim]
    return _sides(tally, pair, total, squares)


def rate_sides(tally: Tally, pair: Constraint) -> list[Side]:
    """The same with 1 for a row predicted right, or predicted to be of the claimed class."""
    hits = tally.right if pair.claim is None else tally.counts[:, :, pair.claim]
    return _sides(tally, pair, hits, hits)


def _sides(
    tally: Tally, pair: Constraint, total: Floats | Ints, squares: Floats | Ints
) -> list[Side]:
    cells = tally.cells
    found: list[Side] = []
    for side in pair.sides(*cells.shape):
        if side.any():
            size, sums = cells[side].sum(), np.array([total[side].sum(), squares[side].sum()])
            spread = None if tally.spread is None else tally.spread[side].sum()
            scale = size / spread if spread else 1
            found.append(((size * scale).item(), *(sums * scale).tolist()))
    return found


def rate_gap(tally: Tally, pair: Constraint) -> float | None:
    """Signed difference, a minus b, of the rates at which rows are predicted right.

    With a claim, of the rates at which its class is predicted. Undefined for a single group.
    """
    sides = rate_sides(tally, pair)
    return _difference(sides) if len(sides) > 1 else None


def loss_gap(tally: Tally, pair: Constraint) -> float | None:
    """Signed difference, a minus b, of the mean losses: D of the union of rows."""
    return _difference(loss_sides(tally, pair))


def _difference(sides: Sequence[Side]) -> float | None:
    """Mean over the rows of side a minus that of side b, if there is one."""
    if not all(size for size, _, _ in sides):
        return None
    means = [total / size for size, total, _ in sides]
    return finite(means[0] - sum(means[1:])) if np.isfinite(means).all() else None


def finite(value: float) -> float | None:
    """The value, or None if it is not finite: a row far off the scale can have infinite loss."""
    return float(value) if np.isfinite(value) else None


def largest(gaps: Sequence[float | None]) -> float | None:
    """The largest absolute gap; undefined if any gap is, so that no missing gap looks fair."""
    if not gaps or any(gap is None for gap in gaps):
        return None
    return max(abs(gap) for gap in gaps if gap is not None)


def within(gap: float, target: float) -> bool:
    """Whether a gap of rates is at most the target, up to the rounding of two quotients."""
    return gap <= target + 1e-9


def deo(tally: Tally, pairs: Sequence[Constraint]) -> float | None:
    """Difference of equal opportunity."""
    return largest([rate_gap(tally, pair) for pair in pairs])


def dgeo_pooled(tally: Tally, pairs: Sequence[Constraint]) -> float | None:
    """DGEO of the union of all rows."""
    return largest([loss_gap(tally, pair) for pair in pairs])


def dgeo_mean(silos: Sequence[Tally], pairs: Sequence[Constraint]) -> float | None:
    """The paper's federated estimation: |average of the silos' own gaps|, where defined."""
    means: list[float | None] = []
    for pair in pairs:
        gaps = [gap for silo in silos if (gap := loss_gap(silo, pair)) is not None]
        means.append(float(np.mean(gaps)) if gaps else None)
    return largest(means)


def harmonic_mean(accuracy: float | None, fairness: float | None) -> float | None:
    """2 a f / (a + f)."""
    if accuracy is None or fairness is None:
        return None
    total = accuracy + fairness
    return 2 * accuracy * fairness / total if total else 0.0


def summary(
    tally: Tally, constraints: Sequence[Constraint], compared: Sequence[Constraint] | None = None
) -> dict[str, float | None]:
    """The metrics of one set of rows, by their keys in metrics.json.

    DEO and fairness are those of the pairs `compared`, which default to the constraints.
    """
    right, gap = accuracy(tally), deo(tally, constraints if compared is None else compared)
    fairness = None if gap is None else 1 - gap
    return {
        "accuracy": right,
        "balanced_accuracy": balanced_accuracy(tally),
        "deo": gap,
        "fairness": fairness,
        "harmonic_mean": harmonic_mean(right, fairness),
        "rate_gap": deo(tally, constraints),
        "dgeo_pooled": dgeo_pooled(tally, constraints),
        **({} if tally.scores is None else {"auc": overall(tally.scores)}),
    }


def average(summaries: Sequence[dict[str, float | None]]) -> dict[str, float | None]:
    """The mean of each metric over several models; undefined if it is for one of them."""
    result: dict[str, float | None] = {}
    for key in summaries[0]:
        values = [one[key] for one in summaries]
        defined = [value for value in values if value is not None]
        result[key] = float(np.mean(defined)) if len(defined) == len(values) else None
    return result


def cells_of(
    tallies: Sequence[Tally], groups: Sequence[str], classes: Sequence[str]
) -> list[dict[str, Any]]:
    """For every group and class: rows, counts of predictions, mean and deviation of the loss.

    Given the tallies of several models on the same rows, the average over the models.
    """
    total = reduce(add, tallies)
    cells = []
    for g, group in enumerate(groups):
        for c, name in enumerate(classes):
            rows = tallies[0].cells[g, c].item()
            draws = rows * len(tallies)
            mean = finite(total.losses[g, c] / draws) if rows else None
            spread = finite(total.squares[g, c] / draws - mean**2) if mean is not None else None
            counts = total.counts[g, c] / len(tallies)
            counted = tallies[0].rows
            weighted = {} if counted is None else {"counted": counted[g, c].item()}
            if not weighted:
                counts = np.rint(counts).astype(int)
            cells.append(
                {
                    "group": group,
                    "class": name,
                    "rows": rows,
                    **weighted,
                    "predicted": dict(zip(classes, counts.tolist(), strict=True)),
                    "loss": mean,
                    "loss_std": None if spread is None else float(np.sqrt(max(spread, 0.0))),
                }
            )
    return cells


def claims_of(
    tally: Tally, groups: Sequence[str], classes: Sequence[str], claims: Sequence[int]
) -> list[dict[str, Any]]:
    """For every group and claimed class: mean and deviation of the loss if all rows had it."""
    if tally.claimed is None:
        return []
    rows = tally.cells.sum(axis=1)
    found = []
    for g, c in itertools.product(range(len(groups)), claims):
        total, squares = tally.claimed[:, g, c]
        if rows[g] and np.isfinite([total, squares]).all():
            moments = Moments.of_sums(rows[g].item(), total, squares)
            spread = {"loss": moments.mean, "loss_std": moments.std}
            found.append({"group": groups[g], "claim": classes[c], "rows": moments.rows, **spread})
    return found


def clients_of(tallies: Mapping[str, Tally], pairs: Sequence[Constraint]) -> list[dict[str, Any]]:
    """For every client, by name: rows, accuracy, gap."""
    return [
        {
            "client": name,
            "rows": tally.size,
            "accuracy": accuracy(tally),
            "dgeo": dgeo_pooled(tally, pairs),
        }
        for name, tally in tallies.items()
    ]
