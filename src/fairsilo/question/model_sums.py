"""What a silo computes with a model: the sums of a round.

Logistic regression is computed in NumPy (`lr_sums`), any other model by the compiled sums of the
simulation.
"""

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table
from fairsilo.fairness.constraint import Measure
from fairsilo.model.base import Model
from fairsilo.question.lr_sums import linear_sums
from fairsilo.solver.base import Order, Query, Sums


def sums_of(
    model: Model,
    order: str,
    x: Table,
    y: Ints,
    w: Floats,
    v: Floats,
    theta: Floats,
    mu: Floats,
    measure: Measure = "loss",
) -> Floats:
    """L, D, gradients and the triangle of the Hessian (Gauss-Newton matrix), as one vector."""
    if model.linear:
        return linear_sums(order, x, y, w, v, theta, mu, model.classes, measure, model.cut)
    from fairsilo.sums.rows import Rows, compiled_sums, padded

    rows = padded(Rows(x, y, w, v), 0, len(y))  # type: ignore[arg-type]
    return flatten(compiled_sums(model, Order(order), rows, Query(theta, mu), measure))


def flatten(sums: Sums) -> Floats:
    """Sums as one vector: loss, d, grad, jac, one triangle of hess."""
    parts = [np.atleast_1d(sums.loss), np.asarray(sums.d), np.asarray(sums.grad)]
    if sums.jac is not None:
        parts.append(np.asarray(sums.jac).reshape(-1))
    if sums.hess is not None:
        parts.append(np.asarray(sums.hess)[np.triu_indices(len(sums.grad))])
    return np.concatenate(parts).astype(np.float64)
