"""What the sums of a round cannot be, whatever the rows.

With r^2 = (rows of the encoder) / (rows counted now) >= mean x_j^2 of every encoded column: numbers
are standardised over the encoder's rows, all others are 0 or 1. h_k is the largest weight of a row
in constraint k, in units of its weight 1/n in the objective. For logistic regression

    L >= 0,  L(0) = log C,  D_k(0) = 0          any rows have the same loss at theta = 0
    |D_k| <= h_k L                              losses are not negative; of every model
    L(theta) <= L(0) + theta . grad L(theta)    L is convex
    |dL/dtheta| <= r                            |p - y| <= 1, and Cauchy and Schwarz
    |dD_k/dtheta| <= r sqrt(2 h_k)              as sum v_k^2 <= 2 h_k / n
    |H| <= r^2 (1 + sum_k |mu_k| h_k) / 4       p (1 - p) <= 1/4; SHARPNESS^2 as much for rates
    H is positive semidefinite at mu = 0        of every model: the Gauss-Newton matrix is, too

After local epochs (`worked`) the vector in the place of the gradient is a sum of gradients of rows
at other points: each bound of a gradient holds for it, times how often a row counts in it.

Of one silo's own part all of it holds; L(0) is its share of the rows, n_i / n, of log C, and
|dL/dtheta| is at most r sqrt(n_i / n). Rows with weights count as so many rows. Where classes have
weights, a row weighs at most t times 1/n and at least 1/t' times: then n_i / n and r^2 become up to
t times as large, and h_k up to t' times.
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.fairness.constraint import Totals, class_factors
from fairsilo.question.base import Problem
from fairsilo.question.lr_sums import SHARPNESS
from fairsilo.question.plausible import ROUNDING, Known
from fairsilo.solver.base import Sums

ROOM = 1.01
"""Deviations of columns are rounded, too."""


def wrong_sums(
    problem: Problem, sums: Sums, at: tuple[Floats, Floats], totals: Totals, known: Known
) -> str:
    """Why no rows could give these sums at (theta, mu); empty where some could.

    `problem` has the constraints that count.
    """
    theta, loss, d = at[0], float(sums.loss), np.asarray(sums.d)
    rate, linear = problem.measure == "rate", problem.model.linear
    share, heavy, light = 1.0, *_tilt(problem, totals)
    if known.alone and known.rows is not None:
        share = min(heavy * known.rows / totals.rows, 1.0)
    at_zero = np.log(problem.classes) * share
    unsure = known.alone and (known.rows is None or problem.class_weight is not None)
    least = 0.0 if unsure else at_zero
    sides = [one.sides(*problem.shape) for one in problem.constraints]
    even = not (known.alone or rate) and all(minus.any() for _, minus in sides)
    heaviest = light * _heaviest(problem, totals)
    most = np.ones(len(d)) if rate else _times(np.full(len(d), max(loss, 0.0)), heaviest)
    large = np.abs(d) > most * (1 + ROUNDING) + ROUNDING
    if not rate:
        # Losses under a claim are others than those in L.
        large &= np.array([one.claim is None for one in problem.constraints], bool)
    start = linear and not theta.any()
    wrong = _first(
        (loss < -ROUNDING, "the mean loss is negative"),
        (
            start and not least - ROUNDING <= loss <= at_zero + ROUNDING,
            "the mean loss of a model without weights is not log(classes)",
        ),
        (
            start and even and (np.abs(d) > ROUNDING).any(),
            "a model without weights has a gap between groups",
        ),
        (
            large.any(),
            "a gap between groups is larger than the losses allow",
        ),
    )
    if wrong:
        return wrong
    reach = np.sqrt(heavy) * _reach(totals, known)
    if problem.work is None:
        return _wrong_slopes(problem, sums, at, heaviest, share, reach)
    farthest = _steps(problem, totals, known) * _longest(at[1], heaviest, share, reach)
    far = linear and (np.abs(sums.grad) > farthest + ROUNDING).any()
    return "local epochs led further than any rows allow" if far else ""


def _tilt(problem: Problem, totals: Totals) -> tuple[float, float]:
    """t and t'; one where classes have no weights."""
    if problem.class_weight is None:
        return 1.0, 1.0
    factors = class_factors(problem.class_weight, totals.by_class)
    mean = float(factors @ totals.by_class) / totals.rows
    return float(factors.max()) / mean, mean / float(factors.min())


def _first(*found: tuple[bool | np.bool_, str]) -> str:
    """The first sentence that is true."""
    return next((why for wrong, why in found if wrong), "")


def _reach(totals: Totals, known: Known) -> float:
    """r; infinite where nobody knows how the encoder was fitted."""
    if known.encoded is None:
        return np.inf
    return ROOM * float(np.sqrt(max(known.encoded / totals.rows, 1.0)))


def _steps(problem: Problem, totals: Totals, known: Known) -> float:
    """How often a row's gradient can count in what local epochs send; infinite where nobody knows.

    In each epoch once, times rows of the silo / rows of its batch. Batches are about equal, so that
    is at most twice their number; rows are asked again under every claim.
    """
    work = problem.work
    assert work is not None
    if work.batch is None:
        return float(work.epochs)
    own = known.rows if known.alone and known.rows is not None else totals.rows
    batches = np.ceil(own * (1 + len(problem.claims)) / work.batch)
    if problem.weighted:
        return np.inf
    return float(work.epochs * (2 * batches if batches > 1 else 1))


def _gaps(heaviest: Floats, reach: float) -> Floats:
    """The steepest slope of each gap."""
    found: Floats = max(1.0, SHARPNESS / 4) * reach * np.sqrt(2 * heaviest)
    return found


def _longest(mu: Floats, heaviest: Floats, share: float, reach: float) -> float:
    """The steepest slope of the Lagrangian; without multipliers, of the loss."""
    return float(reach * np.sqrt(share) + _times(np.abs(mu), _gaps(heaviest, reach)).sum())


def _heaviest(problem: Problem, totals: Totals) -> Floats:
    """h_k of every constraint."""
    found = []
    for k, one in enumerate(problem.constraints):
        if problem.estimator == "pooled":
            sides = (totals.cells[side].sum() for side in one.sides(*problem.shape) if side.any())
            smallest = min(sides, default=1) or 1
        else:
            # A silo's own side has at least one row, which may weigh anything.
            smallest = 0 if problem.weighted else max(int(totals.taking_part[k]), 1)
        found.append(totals.rows / smallest if smallest else np.inf)
    return np.array(found, np.float64)


def _wrong_slopes(
    problem: Problem,
    sums: Sums,
    at: tuple[Floats, Floats],
    heaviest: Floats,
    share: float,
    reach: float,
) -> str:
    """Gradients and Hessian."""
    theta, mu = at
    grad, loss, linear = np.asarray(sums.grad), float(sums.loss), problem.model.linear
    # Without a Jacobian the gradient is that of the Lagrangian.
    own = sums.jac is not None or not mu.any()
    gaps = _gaps(heaviest, reach)
    longest = _longest(mu * (not own), heaviest, share, reach)
    jac = np.zeros((0, len(grad))) if sums.jac is None else np.asarray(sums.jac)
    slopes = np.abs(jac).max(axis=1, initial=0.0)
    room = ROUNDING * (1 + float(np.abs(theta).sum()))
    bent = np.zeros((0, 0)) if sums.hess is None else np.asarray(sums.hess)
    steepest = SHARPNESS**2 / 4 if problem.measure == "rate" else 0.25
    most = reach**2 * (0.25 + steepest * float(_times(np.abs(mu), heaviest).sum()))
    return _first(
        (
            linear and (np.abs(grad) > longest + ROUNDING).any(),
            "a gradient is larger than any rows allow",
        ),
        (
            linear and own and loss - float(grad @ theta) > share * np.log(problem.classes) + room,
            "losses and gradient are those of no convex function that begins at log(classes)",
        ),
        (
            linear and len(jac) > 0 and (slopes > gaps + ROUNDING).any(),
            "a gradient of a gap is larger than any rows allow",
        ),
        (
            linear and np.abs(bent).max(initial=0.0) > most + ROUNDING,
            "a Hessian is larger than any rows allow",
        ),
        (
            not mu.any() and not _semidefinite(bent),
            "a Hessian of losses is not positive semidefinite",
        ),
    )


def _times(factor: Floats, bound: Floats) -> Floats:
    """The product, where a bound may be infinite: nothing of it is nothing."""
    found: Floats = np.multiply(factor, bound, where=factor != 0, out=np.zeros_like(factor))
    return found


def _semidefinite(matrix: Floats) -> bool:
    """Whether no eigenvalue is negative beyond rounding."""
    size = max(float(np.abs(matrix).max(initial=0.0)), 1.0)
    try:
        np.linalg.cholesky(matrix + ROUNDING * size * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True
