"""How training ended, in words: converged or not, collapsed to a constant, a limit that idles."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairsilo.evaluate import Tally
from fairsilo.method import METHODS, Trained
from fairsilo.question import Problem
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared
from fairsilo.run.problem import Posed
from fairsilo.solver import Outcome, Status

IDLE = "no limit binds"


def ending(
    outcome: Outcome,
    tolerance: float,
    tally: Tally,
    classes: Sequence[str],
    rows: str = "training",
    exact: bool = True,
    stopped: bool = False,
) -> str:
    """Why a solver ended, in words; a collapsed model is called so even where it converged.

    A diverged one is not: what it predicts means nothing. `tally` is of the rows that are
    named. Not `exact`: by local epochs. `stopped`: early, as asked for.
    """
    last = outcome.last
    left = f"KKT residual {float(last.residual):.1e}, violation {float(last.violation):.1e}"
    limit = f"tolerance {tolerance:.0e}"
    reason = {
        Status.CONVERGED: f"converged: {left}, {limit}",
        Status.RUNNING: f"stopped early, as asked, by rows set aside: {left}"
        if stopped
        else f"not converged: {outcome.rounds} rounds reached with {left}, {limit}",
        Status.STALLED: f"not converged: no further progress with {left}, {limit}"
        if exact
        else "not converged: the local epochs came to rest beside the optimum",
        Status.DIVERGED: "diverged: a sum over the rows is not a finite number",
    }[outcome.status]
    predicted = tally.counts.sum(axis=(0, 1))
    if outcome.status is not Status.DIVERGED and np.count_nonzero(predicted) == 1:
        name = classes[int(np.argmax(predicted))]
        reason = f"collapsed to a constant: every {rows} row is predicted {name!r}; {reason}"
    return reason


def explain(problem: Problem, trained: Trained, train: Tally, posed: Posed) -> str:
    """`ending`, and how many of several clients' models are constant."""
    classes = posed.schema.classes
    reason = ending(
        trained.outcome, problem.solver.tolerance, train, classes,
        exact=problem.work is None or problem.work.exact, stopped=trained.stopped,
    )  # fmt: skip
    missed = next((note for note in trained.notes if note.startswith("target missed")), None)
    if missed is not None:
        reason = f"{missed}; {reason}"
    if reason.startswith(("collapsed", "diverged")):
        return reason
    last, alone = trained.outcome.last, limited_alone(problem)
    if alone and trained.outcome.status is not Status.CONVERGED and last.violation > 0:
        return (
            f"{reason}; no model was found that keeps the mean loss of every group within the "
            f"limit, the closest has {float(np.abs(last.d).max()):.4f}: raise epsilon"
        )
    if len(trained.predictors) > 1:
        # Only a simulation has several: over a network they stay in the silos.
        assert isinstance(posed, Prepared)
        x, s = posed.test_x, posed.test_s
        constant = sum(len(np.unique(one.labels(x, s, 0))) == 1 for one in trained.predictors)
        if constant:
            count = f"{constant} of {len(trained.predictors)} clients' models"
            return f"collapsed to a constant: {count} give every test row one class; {reason}"
    return reason


def ended_well(metrics: Mapping[str, Any]) -> bool:
    """Whether training ended as it should: converged, stopped early as asked, or under noise."""
    meant = metrics.get("stopped_early") or "dp" in metrics
    return bool(meant or metrics.get("converged", True))


def limited_alone(problem: Problem) -> bool:
    """Whether a group's loss is limited by itself: of all notions this one can be too much."""
    return any(not one.sides(*problem.shape)[1].any() for one in problem.constraints)


def idle_limit(options: Options, problem: Problem, outcome: Outcome) -> list[str]:
    """Say so where no limit binds: by complementarity the model is then the one without limits."""
    method = METHODS[options.after or options.method]
    gaps = np.abs(np.asarray(outcome.last.d, np.float64))
    exact = problem.promise is None and not method.alone and outcome.status is Status.CONVERGED
    if method.limits != "loss" or not exact or not gaps.size or gaps.size % len(problem.limits):
        return []
    if options.target_deo is not None and problem.measure == "loss":
        # `target_by` search looked for the limit, and says itself whether one is needed.
        return []
    limits = np.resize(problem.limits, gaps.size)
    pushed = bool(np.any(outcome.last.mu))
    if problem.measure == "rate" and pushed:
        # Rates are steps: one that is bound may end a step below its limit.
        return []
    if not (gaps < (0.99 * limits - 1e-4 if pushed else limits)).all():
        return []
    what = "loss" if limited_alone(problem) else "gap"
    return [
        f"{IDLE}: the largest {what} on the training rows is {gaps.max():.4f}, of at most "
        f"{limits.max():g}, so that training without limits gives this model, too"
    ]
