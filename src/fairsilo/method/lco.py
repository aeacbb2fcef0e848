"""LCO, locally constrained optimisation: every silo's own gap is a constraint.

Where all rows are in one process, the constraints of all silos are one problem. Elsewhere an
augmented Lagrangian, whose multipliers never leave the silos (`question.local`):

    repeat   minimise sum_i A_i(theta) by Newton, from where the last minimisation ended
             every silo takes its dual step at that point, inside the next question
             raise rho where what is amiss did not fall to a quarter

until all constraints hold, and none that is slack has a multiplier, to the tolerance. Whoever adds
the sums sees neither a D_i nor a multiplier.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from fairsilo.arrays import Floats
from fairsilo.engine import Changed, Engine, Pooled
from fairsilo.engine.loop import drive
from fairsilo.errors import FairSiloError
from fairsilo.method.base import Method, Trained, solved, who_takes_part
from fairsilo.question.base import Problem
from fairsilo.question.local import Local
from fairsilo.question.round import numbers_down, numbers_up
from fairsilo.solver import Newton, Order, Outcome, Query, Record, Status, Sums, Watch

RHO, GROWTH, RHO_MAX = 10.0, 4.0, 1e4
TURNS = 40
"""The most dual steps."""
TOLERANCE = 1e-6


def train(problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
    """By one solve over all silos' constraints, or by the augmented Lagrangian."""
    local = replace(problem, estimator="local")
    notes = who_takes_part(local, engine)
    if isinstance(engine, Pooled):
        return solved(local, engine.solve(local, watch), notes)
    check_solver(problem)
    outcome = _Game(local, engine, watch).play()
    size = problem.model.size
    up = numbers_up(Order.SECOND, size, 0) + 2
    return replace(solved(local, outcome, notes), numbers_up=up, numbers_down=numbers_down(size, 2))


def check_solver(problem: Problem) -> None:
    """Refuse a solver that does not go with the augmented Lagrangian."""
    if problem.solver.order is not Order.SECOND:
        raise FairSiloError(
            f"method lco by silos that keep their multipliers is solved by newton and not by "
            f"{problem.solver.name}: use `solver` newton"
        )


@dataclass
class _Game:
    """The state of the augmented Lagrangian method at the server."""

    problem: Problem
    engine: Engine
    watch: Watch | None
    rho: float = RHO
    turn: int = 0
    theta: Floats = field(default_factory=lambda: np.zeros(0))
    asked: Floats = field(default_factory=lambda: np.zeros(0))
    told: tuple[float, float] = (0.0, 0.0)
    """Plain loss and what is amiss with the constraints, squared, in the last answer."""
    stands: tuple[float, float] = (0.0, 0.0)
    """The same at the point that the solver stands on."""
    records: list[Record] = field(default_factory=list)

    def play(self) -> Outcome:
        """Minimise, let the silos take their dual steps, again until all constraints hold."""
        self.theta = self.problem.model.start(self.problem.seed)
        before, status = np.inf, Status.RUNNING
        while self.turn < TURNS and len(self.records) < self.problem.rounds:
            left = self.problem.rounds - len(self.records)
            try:
                solver = Newton(tolerance=TOLERANCE / 10)
                ended = drive(
                    solver, self._answer, self.theta, np.zeros(0), left, self._note,
                    self.problem.penalty,
                )  # fmt: skip
            except Changed as change:
                self.theta = change.onward(self.theta, self.asked)
                continue
            self.theta, status = np.asarray(ended.theta), ended.status
            violated = float(np.sqrt(self.stands[1]))
            cut_short = status is not Status.CONVERGED and left <= ended.rounds
            if cut_short or violated <= TOLERANCE:
                break
            if violated > before / 4:
                self.rho = min(self.rho * GROWTH, RHO_MAX)
            before, self.turn = violated, self.turn + 1
        if np.sqrt(self.stands[1]) > TOLERANCE and status is Status.CONVERGED:
            status = Status.STALLED if self.turn >= TURNS else Status.RUNNING
        history = Record.stacked(self.records)
        return Outcome(self.theta, status, len(self.records), history)

    def _answer(self, query: Query, order: Order) -> Sums:
        """The augmented Lagrangian at theta: one sum over the silos."""
        self.asked = np.asarray(query.theta, np.float64)
        totals = self.engine.count(self.problem).to_vector()
        sums, *self.told = self.engine.ask(
            self.problem, Local(self.asked, self.rho, self.turn, totals)
        )
        return sums  # type: ignore[no-any-return]

    def _note(self, number: int, record: Record) -> None:
        """In the history: the plain loss, and as violation the root of what is amiss."""
        if not self.records or float(record.step) > 0 or number == 1:
            self.theta, self.stands = self.asked, (self.told[0], self.told[1])
        loss, squares = map(np.asarray, self.stands)
        self.records.append(replace(record, loss=loss, violation=np.sqrt(squares)))
        if self.watch:
            self.watch(len(self.records), self.records[-1])


lco = Method(
    name="lco",
    title="LCO",
    words="Locally constrained: one model, and a fairness limit on every client's own rows",
    train=train,
    asks=("local",),
    limits="loss",
    shared=True,
    estimator="local",
    weighted=True,
)
