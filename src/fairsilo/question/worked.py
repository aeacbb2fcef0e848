"""FedAvg's local epochs (McMahan et al. 2017), as the gradient of a round.

From theta a silo takes steps at AGP's rate alpha on mini-batches of its own rows, on its own part
of the Lagrangian, scaled to a mean:

    theta_i <- theta_i - alpha * (n_i / |B|) / s_i * sum_{j in B} (w_j + mu v_j) grad l_j(theta_i)

with s_i = sum_j w_j, its share of all rows. It answers with s_i (theta - theta_i) / alpha in place
of its gradient. The server's step theta - alpha * (sum of these) is then the average of the silos'
models, weighted by their rows: FedAvg. With one epoch and all rows in a batch it is the gradient.
"""

import math

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.coded import Table, dense
from fairsilo.fairness.constraint import Measure
from fairsilo.question.base import Problem
from fairsilo.question.model_sums import sums_of
from fairsilo.solver.base import Order

SMALL = 1 << 24
"""Numbers of a table that may be held in full."""
Weighted = tuple[Table, Ints, Floats, Floats]
"""x, y, w and v of a silo's rows."""


def worked(
    problem: Problem,
    rows: Weighted,
    theta: Floats,
    mu: Floats,
    measure: Measure,
    rng: np.random.Generator,
) -> Floats:
    """Loss and gaps at theta, and where the local epochs led in place of the gradient."""
    work, rate = problem.work, problem.solver.alpha  # type: ignore[attr-defined]
    assert work is not None
    x, y, w, v = rows
    size, share = problem.model.size, float(w.sum())

    def sums(part: Ints | slice, at: Floats) -> Floats:
        own = (x[part], y[part], w[part], v[:, part])
        return sums_of(problem.model, Order.LAGRANGIAN.value, *own, at, mu, measure)

    if work.batch is not None and problem.model.linear and len(y) * x.shape[1] <= SMALL:
        # Codes are for many rows: of a batch the full table is faster.
        x = dense(x)
    vector = sums(slice(None), theta)
    if share == 0:
        return vector
    at = theta.astype(np.float64)
    batches = math.ceil(len(y) / (work.batch or len(y)))
    for _ in range(work.epochs):
        for part in np.array_split(rng.permutation(len(y)), batches):
            at = at - rate * len(y) / len(part) / share * sums(part, at)[-size:]
    vector[-size:] = share * (theta - at) / rate
    return vector
