"""The plain loop of a solver against anything that answers queries: silos here or far away."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from fairsilo.arrays import Floats
from fairsilo.solver.base import Order, Outcome, Query, Record, Solver, Status, Sums, Watch
from fairsilo.solver.penalty import Penalty, added
from fairsilo.solver.strengths import Choosing

Answer = Callable[[Query, Order], Sums]


@np.errstate(all="ignore")
def _step(solver: Solver, state: Any, sums: Sums) -> Any:
    """Sums that are not finite are no warning: the solver's status says so."""
    return solver.step(state, sums)


def _penalised(
    solver: Solver,
    state: Any,
    query: Query,
    sums: Sums,
    penalty: Penalty | Choosing,
    before: Penalty | None,
    limits: Floats,
) -> tuple[Any, Penalty]:
    """One step under the penalty, which changes only where the point asked about is accepted."""
    stepped = None
    if before is not None:
        stepped = _step(solver, state, added(before.matrix, query.theta, sums))
        if not np.array_equal(stepped.theta, query.theta):
            return stepped, before
    form = penalty.form(query.theta, sums)
    if stepped is not None and form is before:
        return stepped, form
    fresh = solver.init(query.theta, limits)
    return _step(solver, fresh, added(form.matrix, query.theta, sums)), form


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
    it asked about: losses under different penalties do not compare. The steps are NumPy's: they are
    small, and compiling them would take longer.
    """
    if sys.modules.get("jax") is not None:
        # A solver of the user's own may compute with JAX: in 64 bits.
        import fairsilo.compute  # noqa: F401
    limits = np.array(epsilon, np.float64)
    state = solver.init(np.array(theta0, np.float64), limits)
    log: list[Record] = []
    form: Penalty | None = None
    # Whoever loaded NumPy before fairsilo has a BLAS of many threads (see `fairsilo/__init__.py`).
    with threadpool_limits(1, user_api="blas"):
        while len(log) < rounds and int(state.status) == Status.RUNNING:
            query = solver.query(state)
            sums = answer(query, solver.order)
            if penalty is None:
                state = _step(solver, state, sums)
            else:
                state, form = _penalised(solver, state, query, sums, penalty, form, limits)
            log.append(state.record)
            if watch:
                watch(len(log), state.record)
    history = Record.stacked(log)
    # Newton keeps the sums of the point at which it stands.
    hess = getattr(getattr(state, "sums", None), "hess", None)
    return Outcome(np.asarray(state.theta), Status(int(state.status)), len(log), history, hess)
