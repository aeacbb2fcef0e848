"""What every term of a model adds to a score: curves, values and pairs, for pictures and tables.

For models of two classes whose score is a sum (`lr`, `additive`). H is the Hessian of the mean loss
at the optimum without a limit, P the penalty's, n the rows. From them follow, of every term:

    band         f +- 1.96 sd(f), with the covariance (n (H + P))^-1 of the parameters: that of a
                 normal posterior, whose bands cover a smooth curve 95 % of the time on average
                 along it (Nychka 1988; Marra and Wood 2012)
    importance   the standard deviation of what the term adds, over rows weighted by p (1 - p)
    zero         the mean of what it adds over the same rows: a shift between a term and the
                 intercept changes no score

At the optimum under a limit the Hessian is that of the Lagrangian, which gives no covariance: the
bands are those of the model without the limit. Rows of unequal weight have no band: n would be
neither their number nor the sum of their weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.data import Encoder
from fairsilo.data.binned import Block
from fairsilo.data.hot import labels_of
from fairsilo.data.schema import Number
from fairsilo.evaluate.intervals import LEVEL, quantile
from fairsilo.method import Trained
from fairsilo.predictor.base import Plain
from fairsilo.solver import Outcome
from fairsilo.solver.penalty import Penalty
from fairsilo.solver.strengths import Choosing

DIGITS = 6
"""What is stored of a number."""
Form = Penalty | Choosing | None


@dataclass(frozen=True, eq=False)
class Free:
    """The model without a limit: its parameters, and the Hessian of its mean loss."""

    theta: Floats
    hess: Floats | None
    covariance: Floats | None

    @classmethod
    def of(cls, outcome: Outcome, penalty: Form, rows: float | None) -> Free:
        """From its training; without second-order sums or `rows` there is no covariance."""
        theta, known = np.asarray(outcome.theta), outcome.hess
        # The intercept's curvature is the mean of p (1 - p): zero where every row is decided.
        if known is None or not np.isfinite(known).all() or known[0, 0] <= 0:
            return cls(theta, None, None)
        whole = np.array(known)
        form = np.zeros(len(theta)) if penalty is None else penalty.matrix
        hess = whole - (np.diag(form) if form.ndim == 1 else form)
        if rows is None:
            return cls(theta, hess, None)
        # All one-hot columns of a category and the intercept are linearly dependent; a difference
        # of two heights does not depend on this.
        whole[np.diag_indices_from(whole)] += 1e-10 * np.abs(np.diag(whole)).max()
        return cls(theta, hess, np.asarray(np.linalg.inv(whole) / rows, np.float64))


def terms_of(
    encoder: Encoder, trained: Trained, free: Outcome | None, penalty: Form, rows: float | None
) -> list[dict[str, Any]]:
    """All terms as plain data, the most important first; none for a model that is no sum.

    `rows`: how many it was trained on; None where their weights differ.
    """
    if len(trained.predictors) != 1:
        return []
    model = trained.predictors[0]
    if not isinstance(model, Plain) or not model.model.linear or model.model.outputs > 1:
        return []
    theta = np.asarray(model.theta)
    if not np.isfinite(theta).all():
        return []
    diverged = free is None or not np.isfinite(free.theta).all()
    without = None if free is None or diverged else Free.of(free, penalty, rows)
    blocks = blocks_of(encoder)
    lines = () if encoder.binned is not None else encoder.schema.numbers
    found = [_term(block, blocks, block.name in lines, theta, without) for block in blocks]
    # What the limit made small is what a reader looks for: the larger of the two counts.
    weight = [max(one["importance"], one.get("free_importance", 0.0)) for one in found]
    return [found[k] for k in np.argsort(-np.array(weight), kind="stable")]


def blocks_of(encoder: Encoder) -> tuple[Block, ...]:
    """The terms of an encoder and their columns, in order."""
    if encoder.binned is not None:
        return encoder.binned.blocks(encoder.schema)
    scalings, found, start = iter(encoder.scalings), list[Block](), 0
    for feature in encoder.schema.features:
        if isinstance(feature, Number):
            labels = (feature.name, *(f"{feature.name} (missing)",) * next(scalings).missing)
        else:
            labels = labels_of(feature)
        if labels:
            found.append(Block(feature.name, labels, start))
            start += len(labels)
    return tuple(found)


def _term(
    block: Block, blocks: tuple[Block, ...], line: bool, theta: Floats, free: Free | None
) -> dict[str, Any]:
    """One term: its heights, and where they are known those without the limit and their band."""
    at = np.arange(1 + block.start, 1 + block.start + block.width)
    hess = None if free is None else free.hess
    share, squares = _moments(hess, at, line)
    # A line has its own zero, at the mean of its number.
    centre = np.eye(len(at)) - (0.0 if line else np.outer(np.ones(len(at)), share))
    spread = squares - np.outer(share, share)

    def importance(heights: Floats) -> float:
        return _brief(np.sqrt(max(float(heights @ spread @ heights), 0.0)))

    found: dict[str, Any] = {
        "name": block.name,
        "kind": "line" if line else "curve" if block.steps else "pair" if block.pair else "values",
        "importance": importance(theta[at]),
        "labels": list(block.labels),
        "height": _list(centre @ theta[at]),
    }
    if block.steps is not None:
        found |= {"edges": list(block.steps.edges), "missing": block.steps.missing}
    if block.pair is not None:
        first, second = blocks[block.pair.first], blocks[block.pair.second]
        found["labels"] = [
            _coarse_labels(first, block.pair.rows), _coarse_labels(second, block.pair.columns)
        ]  # fmt: skip
    if free is None:
        return found
    heights = centre @ free.theta[at]
    found |= {"free": _list(heights), "free_importance": importance(free.theta[at])}
    if free.covariance is not None:
        variance = np.diag(centre @ free.covariance[np.ix_(at, at)] @ centre.T)
        reach = quantile(LEVEL) * np.sqrt(np.maximum(variance, 0.0))
        found |= {"low": _list(heights - reach), "high": _list(heights + reach)}
    return found


def _moments(hess: Floats | None, at: np.ndarray, line: bool) -> tuple[Floats, Floats]:
    """Mean and mean products of a term's columns, rows weighted by p (1 - p): the Hessian has them.

    Without it all values of a category and all steps count alike; numbers are standardised.
    """
    if hess is None and line:
        return np.zeros(len(at)), np.eye(len(at))
    if hess is None:
        return np.full(len(at), 1 / len(at)), np.eye(len(at)) / len(at)
    return hess[0, at] / hess[0, 0], hess[np.ix_(at, at)] / hess[0, 0]


def _coarse_labels(block: Block, places: tuple[int, ...]) -> list[str]:
    """The coarse steps of one side of a pair in words."""
    found = []
    for k in range(max(places) + 1):
        own = [place for place, coarse in enumerate(places) if coarse == k]
        names = [block.labels[place] for place in own]
        if len(own) == 1:
            found.append(names[0])
        elif block.steps is None:
            found.append("others")
        else:
            found.append(_joined(names[0], names[-1]))
    return found


def _joined(first: str, last: str) -> str:
    """From the first step to the last: "[22, 25)" and "[30, 35)" are "[22, 35)"."""
    low, high = first.partition(",")[0], last.rpartition(" ")[2]
    if first.startswith("<"):
        return f"< {high.rstrip(')')}" if last.endswith(")") else "any"
    return f"{low}, {high}" if last.endswith(")") else f">= {low.lstrip('[')}"


def _brief(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _list(values: Floats) -> list[float]:
    return [_brief(one) for one in values.tolist()]
