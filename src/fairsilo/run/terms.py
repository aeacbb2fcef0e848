"""What every term of a model adds to a score: curves, values and pairs, for pictures and tables.

For models whose scores are sums (`lr`, `additive`). H is the Hessian of the mean loss at the
optimum without a limit, P the penalty's, n the rows. From them follow, of every term:

    band         f +- 1.96 sd(f), with the covariance (n (H + P))^-1 of the parameters: that of a
                 normal posterior, whose bands cover a smooth curve 95 % of the time on average
                 along it (Nychka 1988; Marra and Wood 2012)
    importance   the standard deviation of what the term adds, over rows weighted by p (1 - p);
                 without H over the term's columns, which then count alike (`weighted` says which)
    zero         the mean of what it adds over the same rows: a shift between a term and the
                 intercept changes no score

Terms that mostly cancel are told as such: a category that follows from a number, say, may have
large values that the number's curve takes back.

Of several classes each has a score, and terms of its own. A shift of all scores changes no
probability, so that every score is told as it differs from their mean.

At the optimum under a limit the Hessian is that of the Lagrangian, which gives no covariance: the
bands are those of the model without the limit. Rows of unequal weight have no band: n would be
neither their number nor the sum of their weights. Under differential privacy there is none: H is
not released, and counts tell it for independent features alone (docs/concepts/additive.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
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
CANCEL = -0.8
"""Two terms whose correlation is below this say little by themselves."""
SMALL = 0.1
"""But where one of them has less than this share of the largest importance, it is not told."""
Form = Penalty | Choosing | None


@dataclass(frozen=True, eq=False)
class Free:
    """The model without a limit: its parameters, and the Hessian of its mean loss."""

    theta: Floats
    hess: Floats | None
    covariance: Floats | None

    @classmethod
    def of(cls, outcome: Outcome, penalty: Form, rows: float | None, outputs: int = 1) -> Free:
        """From its training; without second-order sums or `rows` there is no covariance."""
        theta, known = np.asarray(outcome.theta), outcome.hess
        # An intercept's curvature is the mean of p (1 - p): zero where every row is decided.
        if known is None or not np.isfinite(known).all() or np.diag(known)[:outputs].min() <= 0:
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

    def score(self, k: int, outputs: int) -> Free:
        """The same of one score alone."""
        hess, whole = self.hess, self.covariance
        if whole is not None:
            shape, seen = (len(whole) // outputs, outputs) * 2, contrasts(outputs)[k]
            whole = np.einsum("icjd,c,d->ij", whole.reshape(shape), seen, seen)
        own = None if hess is None else hess[k::outputs, k::outputs]
        return Free(scores_of(self.theta, outputs)[:, k], own, whole)


def contrasts(outputs: int) -> Floats:
    """For every score how it is told: of several, as it differs from their mean."""
    return np.eye(outputs) - (1 / outputs if outputs > 1 else 0.0)


def scores_of(theta: Floats, outputs: int) -> Floats:
    """The intercept and the columns' coefficients of every score as it is told."""
    matrix: Floats = np.asarray(theta).reshape(-1, outputs) @ contrasts(outputs)
    return matrix


def terms_of(
    encoder: Encoder, trained: Trained, free: Outcome | None, penalty: Form, rows: float | None
) -> list[dict[str, Any]]:
    """All terms as plain data, the most important first; none for a model that is no sum.

    Of several classes those of each have its name.
    `rows`: how many it was trained on; None where their weights differ.
    """
    if len(trained.predictors) != 1:
        return []
    model = trained.predictors[0]
    if not isinstance(model, Plain) or not model.model.linear:
        return []
    theta, outputs = np.asarray(model.theta), model.model.outputs
    if not np.isfinite(theta).all():
        return []
    diverged = free is None or not np.isfinite(free.theta).all()
    without = None if free is None or diverged else Free.of(free, penalty, rows, outputs)
    blocks = blocks_of(encoder)
    lines = () if encoder.binned is not None else encoder.schema.numbers
    found = []
    for k, own in enumerate(scores_of(theta, outputs).T):
        beside = None if without is None else without.score(k, outputs)
        named = {"class": encoder.schema.classes[k]} if outputs > 1 else {}
        against = cancelling(blocks, own, None if beside is None else beside.hess)
        for one, others in zip(blocks, against, strict=True):
            term = _term(one, blocks, one.name in lines, own, beside) | named
            found.append(term | ({"cancels": others} if others else {}))
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
        "weighted": hess is not None,
        "labels": labels_in_words(block, blocks),
        "height": _list(centre @ theta[at]),
    }
    if block.steps is not None:
        found |= {"edges": list(block.steps.edges), "missing": block.steps.missing}
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


def labels_in_words(block: Block, blocks: tuple[Block, ...]) -> list[str] | list[list[str]]:
    """What its columns are; of a pair two lists, of the rows and of the columns of its cells."""
    if block.pair is None:
        return list(block.labels)
    first, second = blocks[block.pair.first], blocks[block.pair.second]
    return [_coarse_labels(first, block.pair.rows), _coarse_labels(second, block.pair.columns)]


def cancelling(
    blocks: tuple[Block, ...], theta: Floats, hess: Floats | None
) -> list[dict[str, float]]:
    """For every term those that it mostly cancels with, and their correlation; none without H.

    What terms add goes together as H has it, over rows weighted by p (1 - p).
    """
    found: list[dict[str, float]] = [{} for _ in blocks]
    if hess is None:
        return found
    parts = np.zeros((len(theta), len(blocks)))
    for k, block in enumerate(blocks):
        at = slice(1 + block.start, 1 + block.start + block.width)
        parts[at, k] = theta[at]
    means = hess[0] @ parts / hess[0, 0]
    spread = parts.T @ hess @ parts / hess[0, 0] - np.outer(means, means)
    deviation = np.sqrt(np.maximum(np.diag(spread), 0.0))
    large = [k for k, one in enumerate(deviation) if one > SMALL * deviation.max()]
    for a, b in permutations(large, 2):
        correlation = spread[a, b] / (deviation[a] * deviation[b])
        if correlation < CANCEL:
            found[a][blocks[b].name] = _brief(correlation)
    return found


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
