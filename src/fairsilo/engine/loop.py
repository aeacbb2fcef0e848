"""The plain loop of a solver against anything that answers queries: silos here or far away."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fairsilo.compute import Array, jax, jnp, quickly_compiled
from fairsilo.solver.base import Order, Outcome, Query, Record, Solver, Status, Sums, Watch
from fairsilo.solver.penalty import Penalty, added
from fairsilo.solver.strengths import Choosing

Answer = Callable[[Query, Order], Sums]


def _first(solver: Solver, theta0: Array, epsilon: Array) -> Any:
    return solver.init(theta0, epsilon)


def _one_step(solver: Solver, state: Any, sums: Sums) -> Any:
    return solver.step(state, sums)


_init = quickly_compiled(_first, fixed=("solver",))
_step = quickly_compiled(_one_step, fixed=("solver",))
_added = quickly_compiled(added, fixed=())


def drive(
    solver: Solver,
    answer: Answer,
    theta0: npt.ArrayLike,
    epsilon: npt.ArrayLike,
    rounds: int,
    watch: Watch | None = None,
    penalty: Penalty | Choosing | None = None,
) -> Outcome:
    """Ask, step, ask again, until the solver is done or `rounds` queries were made.

    A `penalty` is added to every answer. Where it changes, the solver starts afresh from the point
    it asked about: losses under different penalties do not compare.
    """
    epsilon = jnp.asarray(epsilon, jnp.float64)
    state = _init(solver, jnp.asarray(theta0, jnp.float64), epsilon)
    log: list[Record] = []
    form: Penalty | None = None
    while len(log) < rounds and int(state.status) == Status.RUNNING:
        query = solver.query(state)
        sums = answer(query, solver.order)
        if penalty is not None:
            before, form = form, penalty.form(query.theta, sums)
            if form is not before:
                state = _init(solver, query.theta, epsilon)
            sums = _added(form.matrix, query.theta, sums)
        state = _step(solver, state, sums)
        log.append(state.record)
        if watch:
            watch(len(log), state.record)
    history = jax.tree.map(lambda *leaves: np.stack(leaves), *log)
    return Outcome(np.asarray(state.theta), Status(int(state.status)), len(log), history)
