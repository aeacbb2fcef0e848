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
from fairsilo.errors import FairSiloError
from fairsilo.solver.base import Sums
from fairsilo.solver.penalty import Penalty

LEAST, MOST = 1e-3, 1e8
"""The range of strengths."""
TRIES = 15
"""Evaluations of AIC in a round."""
CHANGES = 6
"""After so many rounds the strengths are frozen, whether they settled or not."""
SETTLED = 0.5
"""A lower AIC than before by less than this is not worth other strengths."""


FLAT = 0.02
"""Slopes of AIC in the logarithm of a strength that are as good as none."""
FINEST = 0.2
"""Steps of the logarithms below which no strength is worth moving."""


class Choosing:
    """A penalty whose strengths are being chosen; `now` is how they stand."""

    def __init__(
        self, first: Penalty, fixed: int = 0, least: float = LEAST, changes: int = CHANGES
    ) -> None:
        """The first `fixed` strengths stay as they are, the others are `least` or more."""
        self.now, self.fixed, self.least = first, fixed, least
        self.edf: tuple[float, ...] = ()
        """Of every term, at the last choice."""
        self.left = changes

    @property
    def matrix(self) -> Floats:
        """P as it stands."""
        return self.now.matrix

    def form(self, theta: Array, sums: Sums) -> Penalty:
        """The best penalty by what the sums at theta say; from some round on always the same."""
        if self.left:
            self.left -= 1
            model = Quadratic.at(np.asarray(theta), sums)
            chosen = model.best(self.now, self.fixed, self.least)
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

    def best(self, penalty: Penalty, fixed: int = 0, least: float = LEAST) -> Penalty:
        """The strengths with the lowest AIC, by a few steps from those that there are.

        The first `fixed` of them stay. Steps follow the signs of the slopes alone (Rprop): sums
        that differ in their last digits, as those behind masks do, give the same strengths.
        """
        held = penalty.strengths[:fixed]
        rho = np.log(np.clip(penalty.strengths[fixed:], least, MOST))
        size, before = np.full(len(rho), np.log(10.0)), np.zeros(len(rho))
        lowest, found = np.inf, penalty
        for _ in range(TRIES):
            tried = penalty.of_strengths((*held, *np.exp(rho).tolist()))
            value, slopes = self._aic(tried)
            if value < lowest:
                lowest, found = value, tried
            sign = -np.sign(slopes[fixed:]) * (np.abs(slopes[fixed:]) > FLAT)
            turned = sign * before < 0
            size = np.where(turned, size / 2, np.where(sign * before > 0, size * 1.2, size))
            before = np.where(turned, 0.0, sign)
            if not (sign * (size > FINEST)).any():
                break
            rho = np.clip(rho + before * size, np.log(least), np.log(MOST))
        return found

    def _solved(self, penalty: Penalty) -> tuple[Floats, Floats, Floats]:
        """P, (H + P)^-1 and the penalised minimum."""
        from scipy.linalg.lapack import dpotrf, dpotri

        p = penalty.matrix
        p = np.diag(p) if p.ndim == 1 else p
        whole = self.hess + p
        # Parameters that neither rows nor penalty tell apart (full one-hot columns) stay as small
        # as rounding allows.
        whole[np.diag_indices_from(whole)] += 1e-10 * np.abs(np.diag(whole)).max()
        factor, _ = dpotrf(whole, lower=1)
        half, wrong = dpotri(factor, lower=1)
        if wrong:
            raise FairSiloError(
                "the sums of this round have no positive Hessian, by which `penalty` auto chooses: "
                "give a number, such as 1"
            )
        lower = np.tril(half)
        inverse = lower + np.tril(half, -1).T
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
