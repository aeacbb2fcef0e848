"""A penalty: a quadratic form that the server adds to the sums of a round.

    L(theta) + theta' P theta / 2,      P = sum_t strength_t S_t / rows

Silos know nothing of it: it is the server's own term of the objective. With `rows` the training
rows of all silos, or what they weigh, a strength is the precision of a normal prior, or 1 / C of
scikit-learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairsilo.arrays import Array, Floats, Ints
from fairsilo.numerics import library
from fairsilo.solver.base import Sums


@dataclass(frozen=True, eq=False)
class Term:
    """One S_t: the parameters that it is about, and its matrix (k, k), or its diagonal (k,)."""

    name: str
    places: Ints
    matrix: Floats

    @property
    def dense(self) -> Floats:
        """The matrix (k, k)."""
        return np.diag(self.matrix) if self.matrix.ndim == 1 else self.matrix


@dataclass(frozen=True, eq=False)
class Penalty:
    """The terms with their strengths."""

    terms: tuple[Term, ...]
    strengths: tuple[float, ...]
    rows: float
    size: int
    """How many parameters the model has."""
    slight: float = 0.0
    """The strength of a ridge on all parameters that a term is about."""

    @cached_property
    def matrix(self) -> Floats:
        """P (p, p), or its diagonal (p,) where there is nothing else."""
        plain = all(term.matrix.ndim == 1 for term in self.terms)
        whole = np.zeros(self.size if plain else (self.size, self.size))
        for term, strength in zip(self.terms, self.strengths, strict=True):
            if plain:
                whole[term.places] += strength * term.matrix
            else:
                whole[np.ix_(term.places, term.places)] += strength * term.dense
        held = np.unique(np.concatenate([np.zeros(0, int), *(one.places for one in self.terms)]))
        whole[held if plain else (held, held)] += self.slight
        return whole / self.rows

    def form(self, theta: Array, sums: Sums) -> Penalty:
        """The penalty to add to these sums: always this one."""
        return self

    def of_strengths(self, strengths: Sequence[float]) -> Penalty:
        """The same terms with other strengths."""
        return replace(self, strengths=tuple(map(float, strengths)))


def added(matrix: Floats | Array, theta: Array, sums: Sums) -> Sums:
    """The sums at theta with theta' P theta / 2 in loss, gradient and Hessian."""
    xp = library(theta)
    p = xp.asarray(matrix, theta.dtype)
    pull = p * theta if p.ndim == 1 else p @ theta
    hess = sums.hess
    if hess is not None:
        hess = hess + (xp.diag(p) if p.ndim == 1 else p)
    return replace(sums, loss=sums.loss + theta @ pull / 2, grad=sums.grad + pull, hess=hess)
