"""What a method is: a name, what it needs, and a function from (problem, engine) to a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairsilo.engine.base import Engine
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import Dgeo, Estimator
from fairsilo.predictor.base import Plain, Predictor
from fairsilo.question.base import Problem
from fairsilo.question.round import numbers_down, numbers_up
from fairsilo.solver.base import Outcome, Watch


@dataclass(frozen=True)
class Trained:
    """One predictor, or one per silo, and how training went."""

    predictors: tuple[Predictor, ...]
    """None where every silo has its own model and shows it to nobody."""
    outcome: Outcome
    numbers_up: int
    """Numbers sent per silo and round."""
    numbers_down: int
    notes: tuple[str, ...] = field(default=())
    """What a reader must know: silos left out, programs that had no solution."""
    rounds_before: int = 0
    """Rounds of models that were trained on the way and not kept."""
    epsilon: float | None = None
    """The limit on losses that was found, where one was searched for."""
    stopped: bool = False
    """Whether training stopped early, as asked for, by rows set aside."""


Train = Callable[..., Trained]
"""(problem, engine, watch=None) -> Trained."""
Change = Callable[..., Trained]
"""(problem, engine, trained, after=method) -> Trained."""


@dataclass(frozen=True)
class Method:
    """A training method. Other packages add theirs by the entry point `fairsilo.methods`."""

    name: str
    title: str
    words: str
    """What it does, in one line: what reports say."""
    train: Train
    asks: tuple[str, ...] = ("round",)
    """The kinds of questions that silos answer for it, beside those of every method."""
    limits: str = ""
    """What epsilon limits: "loss" (a gap of mean losses), "tau" (AF's trade-off) or nothing."""
    shared: bool = False
    """Whether the constraints are over all silos' rows: then minimum cells apply, and every
    compared cell needs rows."""
    estimator: Estimator | None = None
    """How gaps are estimated, where the method decides that itself."""
    limited: bool = True
    """Whether there are constraints or a repair at all; without them it is its own baseline."""
    private: bool = False
    """Whether it trains under differential privacy."""
    works: bool = False
    """Whether silos can train by themselves between exchanges (local epochs)."""
    targets: bool = False
    """Whether it takes a target in rates, and limits of single pairs."""
    penalised: bool = True
    """Whether the server has an objective of its own, to which it can add a penalty."""
    weighted: bool = False
    """Whether it takes weights of rows and of classes."""
    one_pair: bool = False
    """Whether it is for two classes and one pair of groups only."""
    models: tuple[str, ...] = ()
    """The models it is for; none named: any."""
    own_models: bool = False
    """Whether every silo ends with a model of its own."""
    own_solver: bool = False
    """Whether it has a solver of its own, by L-BFGS, whatever is asked for."""
    rounds: int | None = None
    """The most rounds, where the method decides that itself."""
    revision: int = 0
    """Raised when the algorithm changes: stored results of another one are computed again."""
    setup: int = 0
    """Exchanges before the first round, beside those of every method."""
    repair: Change | None = None
    """How the answers of a trained model are changed; None: the method trains."""
    decides: bool = False
    """Whether it only changes where one model decides, to a target in rates."""

    @property
    def alone(self) -> bool:
        """Whether every silo trains by itself."""
        return self.own_models and self.repair is None

    @property
    def by_silo(self) -> bool:
        """Whether every silo has limits of its own."""
        return self.alone or self.estimator == "local"

    def check(self, problem: Problem) -> None:
        """Refuse a problem that this method is not for."""
        if self.models and problem.model.name not in self.models:
            raise FairSiloError(
                f"method {self.name} is for the model {' or '.join(self.models)} and not for "
                f"{problem.model.name!r}: use `model` {self.models[0]}, or `method` fedfair"
            )
        if self.decides:
            two_classes(problem, self.name)
        if self.one_pair:
            only_pair(problem, self.name)

    def __call__(self, problem: Problem, engine: Engine, watch: Watch | None = None) -> Trained:
        """Train."""
        self.check(problem)
        return self.train(problem, engine, watch)


def two_classes(problem: Problem, method: str) -> None:
    """Refuse a label with other than two classes."""
    if problem.classes != 2:
        raise FairSiloError(
            f"method {method} needs two classes and the label has {problem.classes}: "
            "use `method` fedfair"
        )


def only_pair(problem: Problem, method: str) -> Dgeo:
    """The one pair of groups of a problem with two classes, or an error in one sentence."""
    two_classes(problem, method)
    if len(problem.constraints) != 1:
        raise FairSiloError(
            f"method {method} compares two groups and there are {len(problem.constraints)} pairs: "
            "name two with `groups`, or use `method` fedfair"
        )
    (pair,) = problem.constraints
    if not isinstance(pair, Dgeo):
        raise FairSiloError(
            f"method {method} has a notion of fairness of its own: leave out `notion`, or use "
            "`method` fedfair"
        )
    return pair


def missed_target(found: float, target: float) -> tuple[str, ...]:
    """A note where the rates of the training rows are further apart than the target."""
    if found <= target:
        return ()
    return (f"target missed: on the training rows the rates are {found:.4f} apart, not {target:g}",)


def solved(problem: Problem, outcome: Outcome, notes: Sequence[str] = ()) -> Trained:
    """One plain model; a silo sends and receives the sums of the problem's constraints."""
    # Under `local` a silo sends and receives its own constraints only.
    size, pairs = problem.model.size, len(problem.constraints)
    return Trained(
        (Plain(problem.model, outcome.theta),),
        outcome,
        numbers_up(problem.solver.order, size, pairs, problem.measure),
        numbers_down(size, pairs),
        tuple(notes),
    )


def who_takes_part(problem: Problem, engine: Any) -> tuple[str, ...]:
    """Say how many silos are left out of a constraint for want of rows."""
    taking_part = engine.count(problem).taking_part
    missing = engine.clients - int(taking_part.min()) if len(taking_part) else 0
    if problem.promise is not None or not missing:
        return ()
    count = f"{missing} of {engine.clients} clients have"
    if engine.min_cell is None:
        return (
            f"{count} no rows, or fewer than they demand of themselves, in one of the constrained "
            "cells and leave its rows out of the constraint",
        )
    if engine.min_cell > 1:
        fewer = f"{count} fewer than {engine.min_cell} rows in one of the constrained cells and"
        if problem.estimator == "pooled":
            return (f"{fewer} leave the rows of such cells out of the constraint",)
        return (f"{fewer} take no part in the constraint",)
    if problem.estimator == "pooled":
        return ()
    return (f"{count} no row in one of the constrained cells and take no part in the constraint",)
