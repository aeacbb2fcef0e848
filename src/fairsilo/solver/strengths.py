"""Strengths of a penalty, chosen as Newton goes (performance iteration), by AIC.

At a point the sums make a quadratic model of the loss, L(t) = t'Ht/2 - b't. For strengths
exp(rho) its penalised minimum t = (H + P)^-1 b and the effective degrees of freedom of that follow
without asking a silo:

    AIC / 2n = L(t) + edf / n,    edf = tr (H + P)^-1 H

The strengths with the lowest AIC make the penalty of the step. When they no longer move, they are
frozen, and Newton goes on to the optimum. H must be the Hessian of the loss: no constraints.
"""

from __future__ import annotations

import numpy as np

from fairsilo.arrays import Array, Floats
from fairsilo.solver.base import Sums
from fairsilo.solver.penalty import Penalty

LEAST, MOST = 1e-3, 1e8
"""The range of strengths."""
TRIES = 25
"""Evaluations of AIC in a round."""
CHANGES = 8
"""After so many rounds the strengths are frozen, whether they settled or not."""
SETTLED = 0.1
"""A lower AIC than before by less than this is not worth other strengths."""


ROUNDED = 1
"""Decimals of the strengths' logarithms to base 10."""


class Choosing:
    """A penalty whose strengths are being chosen; `now` is how they stand."""

    def __init__(self, first: Penalty) -> None:
        self.now = first
        self.edf: tuple[float, ...] = ()
        """Of every term, at the last choice."""
        self.left = CHANGES

    @property
    def matrix(self) -> Floats:
        """P as it stands."""
        return self.now.matrix

    def form(self, theta: Array, sums: Sums) -> Penalty:
        """The best penalty by what the sums at theta say; from some round on always the same."""
        if self.left:
            self.left -= 1
            model = Quadratic.at(np.asarray(theta), sums)
            chosen = model.best(self.now)
            gain = model.aic(self.now) - model.aic(chosen)
            if gain < SETTLED and self.edf:
                self.left = 0
            else:
                self.now = chosen
            self.edf = model.edf(self.now)
        return self.now


class Quadratic:
    """The loss as the sums at a point describe it."""

    def __init__(self, hess: Floats, b: Floats, offset: float) -> None:
        self.hess, self.b, self.offset = hess, b, offset

    @classmethod
    def at(cls, theta: Floats, sums: Sums) -> Quadratic:
        """From loss, gradient and Hessian, without any penalty."""
        hess, grad = np.asarray(sums.hess), np.asarray(sums.grad)
        b = hess @ theta - grad
        return cls(hess, b, float(sums.loss) - float(theta @ (hess @ theta / 2 - b)))

    def aic(self, penalty: Penalty) -> float:
        """AIC of the penalised minimum."""
        return 2 * self._aic(penalty)[0]

    def edf(self, penalty: Penalty) -> tuple[float, ...]:
        """The effective degrees of freedom of every term."""
        inverse = self._solved(penalty)[1]
        own = []
        for term in penalty.terms:
            parts = inverse[term.places] * self.hess[:, term.places].T
            own.append(float(parts.sum()))
        return tuple(own)

    def best(self, penalty: Penalty) -> Penalty:
        """The strengths with the lowest AIC, by a few steps from those that there are."""
        # Imported lazily: silos load this module, too.
        from scipy.optimize import minimize

        start = np.log(np.clip(penalty.strengths, LEAST, MOST))

        def at(rho: Floats) -> tuple[float, Floats]:
            return self._aic(penalty.of_strengths(np.exp(rho).tolist()))

        bounds = [(np.log(LEAST), np.log(MOST))] * len(start)
        found = minimize(
            at, start, jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxfun": TRIES, "ftol": 1e-9},
        )  # fmt: skip
        # Rounded, so that sums that differ in their last digits give the same penalty.
        return penalty.of_strengths((10 ** np.round(found.x / np.log(10), ROUNDED)).tolist())

    def _solved(self, penalty: Penalty) -> tuple[Floats, Floats, Floats]:
        """P, (H + P)^-1 and the penalised minimum."""
        from scipy.linalg import cho_factor, cho_solve

        p = penalty.matrix
        p = np.diag(p) if p.ndim == 1 else p
        whole = self.hess + p
        # Parameters that neither rows nor penalty tell apart (full one-hot columns) stay as small
        # as rounding allows.
        whole[np.diag_indices_from(whole)] += 1e-10 * np.abs(np.diag(whole)).max()
        inverse = cho_solve(cho_factor(whole), np.eye(len(whole)))
        return p, inverse, inverse @ self.b

    def _aic(self, penalty: Penalty) -> tuple[float, Floats]:
        """n L(t) + edf, and its slopes in the logarithms of the strengths."""
        n = penalty.rows
        p, inverse, t = self._solved(penalty)
        loss = float(t @ (self.hess @ t / 2 - self.b)) + self.offset
        pulled = p @ inverse
        edf = len(t) - float(np.trace(pulled))
        back = inverse @ (p @ t)
        slopes = []
        for term, strength in zip(penalty.terms, penalty.strengths, strict=True):
            at, own = term.places, strength * term.dense / n
            # d t = -(H+P)^-1 S t  and  d (H+P)^-1 H = -(H+P)^-1 S (H+P)^-1 H
            bent = inverse[np.ix_(at, at)] - inverse[at] @ pulled[:, at]
            slopes.append(n * float(back[at] @ own @ t[at]) - float((own * bent).sum()))
        return n * loss + edf, np.array(slopes)
