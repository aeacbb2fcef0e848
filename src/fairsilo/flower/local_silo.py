"""LCO in a silo: its own constraints, multipliers and penalty, of which only sums ever leave.

    A_i(theta) = sum_j w_j l_j
                 + sum_k [ psi(lambda_a,k, D_ik - eps) + psi(lambda_b,k, -D_ik - eps) ]
    psi(lambda, g) = ( max(0, lambda + rho g)^2 - lambda^2 ) / (2 rho)

D_ik is the silo's own DGEO of pair k; lambda_a, lambda_b >= 0 live in the silo. The silo answers
with A_i, its gradient and Hessian, its loss and max(|D_ik| - eps, 0)^2, summed over k. Told to take
the dual step, lambda becomes max(0, lambda + rho g) at the theta of the question.
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Floats, Ints
from fairsilo.flower.numbers import linear_sums

EXTRA = 2
"""Numbers beside value, gradient and Hessian: the plain loss and the squared violation."""


def local_answer(
    x: Floats,
    y: Ints,
    w: Floats,
    v: Floats,
    theta: Floats,
    epsilon: float,
    rho: float,
    multipliers: Floats,
    classes: int,
) -> tuple[Floats, Floats]:
    """The silo's vector, and the multipliers (2, K) after a dual step at theta."""
    size, pairs = theta.size, len(v)
    first = linear_sums("first", x, y, w, v, theta, np.zeros(pairs), classes)
    loss, d = first[0], first[1 : 1 + pairs]
    grad, jac = first[1 + pairs : 1 + pairs + size], first[1 + pairs + size :].reshape(pairs, size)
    over = np.stack([d - epsilon, -d - epsilon])
    pushed = np.maximum(multipliers + rho * over, 0)
    value = loss + float((pushed**2 - multipliers**2).sum()) / (2 * rho)
    mu = pushed[0] - pushed[1]
    second = linear_sums("second", x, y, w, v, theta, mu, classes)
    triangle = second[1 + pairs + size + pairs * size :]
    rows, columns = np.triu_indices(size)
    for k in range(pairs):
        active = float(np.count_nonzero(pushed[:, k]))
        triangle = triangle + rho * active * jac[k][rows] * jac[k][columns]
    violation = float((np.maximum(np.abs(d) - epsilon, 0) ** 2).sum())
    vector = np.concatenate([[value], grad + mu @ jac, triangle, [loss, violation]])
    return vector, pushed


def local_length(parameters: int) -> int:
    """How many numbers a silo answers with."""
    return 1 + parameters + parameters * (parameters + 1) // 2 + EXTRA
