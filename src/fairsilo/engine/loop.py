"""The plain loop of a solver against anything that answers queries: silos here or far away."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.compute import Array, jax, jnp, quickly_compiled
from fairsilo.solver.base import Order, Outcome, Query, Record, Solver, Status, Sums, Watch

Answer = Callable[[Query, Order], Sums]


def _first(solver: Solver, theta0: Array, epsilon: Array) -> Any:
    return solver.init(theta0, epsilon)


def _one_step(solver: Solver, state: Any, sums: Sums) -> Any:
    return solver.step(state, sums)


_init = quickly_compiled(_first, fixed=("solver",))
_step = quickly_compiled(_one_step, fixed=("solver",))


def drive(
    solver: Solver,
    answer: Answer,
    theta0: npt.ArrayLike,
    epsilon: npt.ArrayLike,
    rounds: int,
    watch: Watch | None = None,
) -> Outcome:
    """Ask, step, ask again, until the solver is done or `rounds` queries were made."""
    state = _init(solver, jnp.asarray(theta0, jnp.float64), jnp.asarray(epsilon, jnp.float64))
    log: list[Record] = []
    while len(log) < rounds and int(state.status) == Status.RUNNING:
        state = _step(solver, state, answer(solver.query(state), solver.order))
        log.append(state.record)
        if watch:
            watch(len(log), state.record)
    history = jax.tree.map(lambda *leaves: np.stack(leaves), *log)
    return Outcome(np.asarray(state.theta), Status(int(state.status)), len(log), history)
