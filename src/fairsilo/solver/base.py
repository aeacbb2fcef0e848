"""The interface of solvers: a solver asks queries, an engine answers with sums.

A solver is a pure state machine over frozen states, so that the same code runs
inside one compiled loop, on arrays of JAX, and against a network, on arrays of NumPy:

    init(theta0, epsilon) -> state
    query(state)          -> Query: where to evaluate the sums
    step(state, sums)     -> state
    done(state)           -> bool

It solves   min_theta L(theta)   s.t.  |D_k(theta)| <= epsilon_k,  k = 1..K
and sees the rows only through `Sums`. `K` may be zero: plain training.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fairsilo.arrays import Array, Floats, leafwise, leaves, traced
from fairsilo.numerics import library


class Order(enum.Enum):
    """The sums that a query asks for."""

    LAGRANGIAN = "lagrangian"
    """L, D and the gradient of L + mu.D: what the paper's AGP needs."""
    FIRST = "first"
    """L, D and their separate gradients."""
    SECOND = "second"
    """FIRST, and the Hessian of L + mu.D (Gauss-Newton for networks)."""


class Status(enum.IntEnum):
    """The status of a solver; stored in the state as a number."""

    RUNNING = 0
    CONVERGED = 1
    DIVERGED = 2
    STALLED = 3


@traced
@dataclass(frozen=True)
class Query:
    """Evaluate the sums at theta, the Lagrangian at multipliers mu = lambda_a - lambda_b."""

    theta: Array
    mu: Array


@traced
@dataclass(frozen=True)
class Sums:
    """The answer to a query: sums over rows, and so over silos."""

    loss: Array
    """L = sum_j w_j l_j."""
    d: Array
    """D_k = sum_j v_kj l_j, (K,). For limits on rates (2K,): the gaps of the true errors, then
    those of their smooth surrogate, whose gradients `jac` has."""
    grad: Array
    """Gradient of L, or of L + mu.D for `Order.LAGRANGIAN`, (p,)."""
    jac: Array | None = None
    """Gradients of the D_k, (K, p)."""
    hess: Array | None = None
    """Hessian of L + mu.D, (p, p)."""

    def __add__(self, other: Sums) -> Sums:
        total: Sums = leafwise(operator.add, self, other)
        return total


@traced
@dataclass(frozen=True)
class Record:
    """A row of the history; values at the solver's current point."""

    loss: Array
    d: Array
    mu: Array
    step: Array
    """Length of the last step in theta (max norm); 0 when it was rejected."""
    residual: Array
    """KKT residual: stationarity and complementarity, max norm."""
    violation: Array
    """max_k max(|D_k| - epsilon_k, 0)."""

    @classmethod
    def stacked(cls, records: Sequence[Record]) -> Record:
        """A history: arrays with one entry per record."""
        history: Record = leafwise(lambda *each: np.stack(each), *records)
        return history


Watch = Callable[[int, Record], None]
"""Called as rounds go by with the number of rounds so far and the last one's record."""


@dataclass(frozen=True)
class Outcome:
    """Where a solver ended."""

    theta: Floats
    status: Status
    rounds: int
    history: Record
    """Arrays with one entry per round."""
    hess: Floats | None = None
    """The Hessian of the objective at theta, penalty included, where the solver asked for it."""

    @property
    def last(self) -> Record:
        """The record of the last round."""
        return Record(*(np.asarray(values)[-1] for values in vars(self.history).values()))


class State(Protocol):
    """The public part of every solver's state."""

    @property
    def theta(self) -> Array:
        """The current parameters."""

    @property
    def k(self) -> Array:
        """How many answers there were."""

    @property
    def status(self) -> Array:
        """A `Status`, as a number."""

    @property
    def record(self) -> Record:
        """The history's row of the last round."""


@runtime_checkable
class Solver(Protocol):
    """The functions of a solver. Implementations are frozen dataclasses of settings."""

    @property
    def order(self) -> Order:
        """What this solver's queries ask for."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def tolerance(self) -> float:
        """The largest KKT residual and violation of a converged solution."""

    def init(self, theta0: Array, epsilon: Array) -> Any:
        """The state before the first round."""

    def query(self, state: Any) -> Query:
        """What to ask the silos."""

    def step(self, state: Any, sums: Sums) -> Any:
        """The state after the silos' answer."""


def done(state: State) -> Array:
    """Whether the solver has finished."""
    return state.status != Status.RUNNING


def violation(d: Array, epsilon: Array) -> Array:
    """max_k max(|D_k| - epsilon_k, 0), zero without constraints."""
    xp = library(d)
    return xp.max(xp.maximum(xp.abs(d) - epsilon, 0), initial=0.0)


def kkt_residual(lagrangian_grad: Array, d: Array, mu: Array, epsilon: Array) -> Array:
    """Max norm of stationarity, grad L + sum_k mu_k grad D_k, and of complementarity.

    A positive mu_k belongs to D_k <= epsilon_k, a negative one to D_k >= -epsilon_k. One of
    multiplier and slack must be zero: the smaller one counts. (Their product would call a small
    multiplier with a large slack complementary.)
    """
    xp = library(mu)
    slack = xp.maximum(epsilon - xp.sign(mu) * d, 0)
    complementarity = xp.max(xp.minimum(xp.abs(mu), slack), initial=0.0)
    return xp.maximum(xp.max(xp.abs(lagrangian_grad)), complementarity)


def all_finite(tree: Any) -> Array:
    """Whether every number in the tree is finite."""
    each = (library(leaf).all(library(leaf).isfinite(leaf)) for leaf in leaves(tree))
    return reduce(operator.and_, each)


def choose(condition: Array, yes: Any, no: Any) -> Any:
    """`yes` where the (scalar) condition holds, else `no`, leaf by leaf."""
    xp = library(condition)
    return leafwise(lambda a, b: xp.where(condition, a, b), yes, no)
