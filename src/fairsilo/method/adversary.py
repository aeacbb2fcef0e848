"""AF's adversary (Du, Xu, Wu, Tong 2021): row weights from Gaussian kernels, by a linear program.

    w_j(alpha) = sum_r alpha_r K(x_j, z_r),   K(x, z) = exp(-|x - z|^2 / (2 sigma^2))

    max_alpha  sum_j w_j l_j
    s.t.       sum_j w_j = n,   0 <= alpha_r <= 5,
               | (1/n) ( sum_j s_j w_j u_j - sbar_w sum_j u_j ) | <= tau,
               sbar_w = (1/n) sum_j w_j s_j

Every coefficient is a sum over rows: silos send `AttackSums`, the server adds them, solves
and broadcasts alpha and sbar_w. Rows of groups other than the two compared ones weigh in the
loss, and have no part in the covariance, whose n counts the rows of the two.

The authors draw the reference points z from the test inputs. Here they leak no row: each column
is drawn on its own from what the clients' sums say of it, normal with the column's mean and
spread, or, where all values are 0 or 1 (one-hot), 1 at the column's frequency. Columns of one
category drawn apart have the same mean squared distance to a row as one drawn together.
"""

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.question.agnostic import AttackSums

ALPHA_MAX = 5.0


def covariance_row(sums: AttackSums, paired: int) -> Floats:
    """The covariance as a linear function of alpha: its coefficients, (R,)."""
    mean_score = sums.score / paired
    return np.asarray((sums.group_score_kernel - sums.group_kernel * mean_score) / paired)


def worst_weights(sums: AttackSums, rows: int, paired: int, tau: float) -> Floats | None:
    """alpha (R,) of the program, or None where no weights within the bounds are so fair."""
    from scipy.optimize import linprog

    covariance = covariance_row(sums, paired)
    solution = linprog(
        -np.asarray(sums.loss_kernel) / rows,
        A_ub=np.stack([covariance, -covariance]),
        b_ub=[tau, tau],
        A_eq=np.asarray(sums.kernel)[None] / rows,
        b_eq=[1.0],
        bounds=(0, ALPHA_MAX),
        method="highs",
    )
    if not solution.success or solution.x is None:
        return None
    alpha: Floats = np.clip(solution.x, 0, ALPHA_MAX)
    return alpha
