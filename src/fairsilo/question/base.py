"""A question is an object: what is asked, how a silo answers, how the answer is packed.

An engine sends a question to every silo, adds the vectors that come back, and lets the question
read the sum. The same object answers in a simulation and in a silo far away, so that both give
the same numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fairsilo.arrays import Floats, Ints, Mask
from fairsilo.coded import Table
from fairsilo.dp import Clip, Message, Plan, Release
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import ClassWeight, Constraint, Dgeo, Estimator, Measure
from fairsilo.model.base import Model
from fairsilo.predictor.base import Predictor
from fairsilo.question.plausible import NOTHING, Known
from fairsilo.solver.base import Solver
from fairsilo.solver.penalty import Penalty
from fairsilo.solver.strengths import Choosing

if TYPE_CHECKING:
    from fairsilo.data.schema import Schema

ASIDE = 0.2
"""The share of a silo's training rows that is set aside where a setting is searched for."""


class Unfit(FairSiloError):
    """A question that does not fit the problem that the silos agreed on."""


@dataclass(frozen=True)
class Promise:
    """Differential privacy as all parties know it: noise multipliers and bounds of a row."""

    plan: Plan
    clip: Clip


@dataclass(frozen=True)
class Work:
    """What a silo does between two exchanges of FedAvg: epochs of gradient steps on its rows."""

    epochs: int = 1
    batch: int | None = None
    """Rows of a step; None is all of them."""

    @property
    def exact(self) -> bool:
        """Whether it is one step along the gradient."""
        return self.epochs == 1 and self.batch is None


@dataclass(frozen=True)
class Problem:
    """A training as all parties know it: everything but the rows."""

    model: Model
    constraints: tuple[Constraint, ...]
    epsilon: float | tuple[float, ...]
    """The limit, one for all constraints or one for each; AF's tau."""
    estimator: Estimator
    solver: Solver
    rounds: int
    seed: int
    groups: int = 2
    measure: Measure = "loss"
    """Whether epsilon limits gaps of losses or of rates."""
    target: float | None = None
    """The difference of rates within which a trained model is made to decide."""
    work: Work | None = None
    """What silos do by themselves in a round of AGP; None: one step over all rows."""
    hidden: tuple[int, ...] = ()
    """The columns of x that encode the group: AF's adversary must not see them."""
    rest: bool = False
    """Whether training leaves out the rows that each silo sets aside; in a silo: whether it may
    be asked to."""
    schema: Schema | None = None
    """How to read a silo's table; None where the rows are arrays already."""
    promise: Promise | None = None
    """Differential privacy, or None."""
    penalty: Penalty | Choosing | None = None
    """What the server adds to the objective; silos need not know it."""
    curvature: Floats | None = field(default=None, compare=False)
    """Under noise, what the server takes for the curvature of L; None: silos release it."""
    begin: Floats | None = field(default=None, compare=False)
    """Where training starts; None is the model's own start."""
    weighted: bool = False
    """Whether rows have weights: a row of weight u counts as u rows."""
    class_weight: ClassWeight | None = None
    """What a row of each class weighs in the objective, beside that."""

    @property
    def start(self) -> Floats:
        """The first theta."""
        return self.model.start(self.seed) if self.begin is None else self.begin

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return self.model.classes

    @property
    def shape(self) -> tuple[int, int]:
        """How many groups and classes there are."""
        return self.groups, self.model.classes

    @property
    def layout(self) -> tuple[int, int, bool, bool]:
        """How `Totals` are laid out in a vector."""
        return *self.shape, self.weighted, self.class_weight is not None

    def totals_length(self, constraints: int) -> int:
        """How many numbers `Totals` are."""
        classes = self.classes if self.class_weight is not None else 0
        return 1 + self.groups * self.classes + constraints + classes

    @property
    def limits(self) -> Floats:
        """One limit per constraint."""
        return np.array(np.broadcast_to(self.epsilon, len(self.constraints)), np.float64)

    @property
    def cell_pairs(self) -> tuple[Dgeo, ...]:
        """The constraints between two cells: what certificates are for."""
        return tuple(one for one in self.constraints if isinstance(one, Dgeo))

    @property
    def claims(self) -> tuple[int, ...]:
        """The classes under which rows are measured beside their own."""
        return tuple(sorted({one.claim for one in self.constraints if one.claim is not None}))


@dataclass(frozen=True, eq=False)
class Part:
    """Training or test rows of one silo."""

    y: Ints
    s: Ints
    x: Table
    """Encoded rows; without columns before the encoder is fitted."""
    frame: Any = None
    """The rows as a table, where there is one."""
    weight: Floats | None = None
    """As how many rows each row counts; None: as one."""

    def __len__(self) -> int:
        return len(self.y)

    def times(self, problem: Problem) -> Floats | None:
        """As how many rows each row counts in the problem; None: as one."""
        if not problem.weighted:
            return None
        return np.ones(len(self)) if self.weight is None else self.weight

    def only(self, rows: Any) -> Part:
        """Some of the rows."""
        frame = None if self.frame is None else self.frame[rows]
        weight = None if self.weight is None else self.weight[rows]
        return Part(self.y[rows], self.s[rows], self.x[rows], frame, weight)


@dataclass(eq=False)
class Silo:
    """One silo's rows, and what it remembers from one question to the next."""

    train: Part
    test: Part
    min_cell: int = 0
    """Cells of fewer training rows take no part in the constraints."""
    index: int = 0
    """Its number among the silos: their random draws differ."""
    memory: dict[str, list[float]] = field(default_factory=dict)
    """Numbers that must survive a restart: of LCO, by turn, rho and the multipliers."""
    cache: dict[Any, Any] = field(default_factory=dict)
    """What can be computed again."""
    own: Predictor | None = None
    """The silo's own model, which it shows to nobody (ST, EO, CEO)."""
    answers: tuple[str | None, tuple[str, ...], tuple[str, ...]] = (None, (), ())
    """For audits of another model: the columns with its predicted class and probabilities, and the
    protected classes, of one of which a single column of probabilities is."""

    def rows(self, problem: Problem, rest: bool = False) -> Part:
        """The rows to train on: all training rows, or those that are not set aside."""
        if not rest:
            return self.train
        if ("rest", problem.seed) not in self.cache:
            self.cache["rest", problem.seed] = self.train.only(self._kept(problem))
        part: Part = self.cache["rest", problem.seed]
        return part

    def aside(self, problem: Problem) -> Part:
        """The training rows that are set aside."""
        return self.train.only(~self._kept(problem))

    def _kept(self, problem: Problem) -> Mask:
        """Which training rows are not set aside: drawn by the seed and the silo's number."""
        rng = np.random.default_rng([problem.seed, 1, self.index])
        kept = np.ones(len(self.train), bool)
        kept[rng.permutation(len(kept))[: set_aside(len(kept))]] = False
        return kept


def set_aside(rows: int) -> int:
    """How many of a silo's training rows are set aside."""
    return round(ASIDE * rows)


QUESTIONS: dict[str, type[Question]] = {}
"""All kinds of questions by name: a silo answers no other."""


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """The base of all questions. Fields are texts, numbers and float64 arrays, for the wire."""

    kind: ClassVar[str] = ""
    moving: ClassVar[bool] = False
    """Whether the sum belongs to a point theta: then all silos answer, or it is of no use. The
    sums of other questions are static: they are the same whenever they are asked for."""
    additive: ClassVar[bool] = False
    """Whether the answer for several silos' rows together is the sum of their answers."""
    private: ClassVar[bool] = False
    """Whether the answer carries noise: such questions only are asked of training rows under
    differential privacy."""

    def __init_subclass__(cls, **told: str | bool) -> None:
        """Set `kind`, `moving`, `additive` and `private`, as far as the class says them."""
        for name, value in told.items():
            if name not in ("kind", "moving", "additive", "private"):
                raise TypeError(f"a question has no {name!r}")
            setattr(cls, name, value)
        if cls.kind:
            QUESTIONS[cls.kind] = cls

    def check(self, problem: Problem) -> None:
        """Raise `Unfit` where a field does not fit the problem."""
        fitting(self)

    @abstractmethod
    def length(self, problem: Problem) -> int:
        """How many numbers a silo answers with."""

    @abstractmethod
    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """The silo's vector, exact."""

    @abstractmethod
    def read(self, problem: Problem, vector: Floats) -> Any:
        """What the sum over silos says."""

    def implausible(self, problem: Problem, vector: Floats, known: Known = NOTHING) -> str:
        """Why no rows could give this sum, or one silo's part of it; empty where some could."""
        return ""

    def messages(self, problem: Problem, silo: Silo) -> Sequence[Message]:
        """The answer under differential privacy: sums with their sensitivity, without noise."""
        raise Unfit(f"question {self.kind!r} has no differential privacy")

    def releases(self, problem: Problem) -> list[Release]:
        """What the answer costs under differential privacy."""
        return []


class Noisy(Question, private=True):
    """The base of questions whose answer is a list of messages that carry noise."""

    def answer(self, problem: Problem, silo: Silo) -> Floats:
        """The messages in one vector, before any noise."""
        return np.concatenate([one.values for one in self.messages(problem, silo)])


def fitting(question: Question, **shapes: tuple[int, ...]) -> None:
    """Raise `Unfit` unless the named arrays have these shapes, and all arrays are finite."""
    for one in fields(question):
        value = getattr(question, one.name)
        if isinstance(value, np.ndarray) and (
            value.shape != shapes.get(one.name, value.shape) or not np.isfinite(value).all()
        ):
            raise Unfit(f"{one.name} of the question {question.kind!r} does not fit the problem")
