"""The options of a training run, checked before anything is read or written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from fairsilo.data.dialect import Dialect
from fairsilo.data.weights import ClassWeights
from fairsilo.engine import ENGINES
from fairsilo.errors import FairSiloError
from fairsilo.fairness import AGAINST, DEFAULT, NOTIONS
from fairsilo.method import DEFAULT as DEFAULT_METHOD
from fairsilo.method import METHODS
from fairsilo.model import MODELS
from fairsilo.model.mlp import with_sizes
from fairsilo.partition import KINDS
from fairsilo.run.choices import check_after, check_seed, check_start, check_stopping, choose
from fairsilo.run.decide import check_decision
from fairsilo.run.local_options import check_local
from fairsilo.run.private_options import check_private
from fairsilo.run.target_options import check_limits
from fairsilo.run.weights import check_weights, class_weights_of
from fairsilo.solver import SOLVERS, Solver

ESTIMATORS = ("mean", "pooled")
GROUPLESS = ("train", "refuse")
NOISE = ("shared", "full")
ALPHA = 0.5
EPSILON = 0.05
TARGET = 0.05
"""In rates, where the notion is about rates and no limit is given."""
TARGET_BY = ("proxy", "search")
PAIRS, MOST_PAIRS = 10, 100
PENALTIES = ("none", "auto", "validation")
BY_AIC = (
    "`penalty` auto needs a model whose Hessian is exact, and the solver newton: give `penalty` a "
    "number, such as 1, or validation"
)


@dataclass(frozen=True)
class Options:
    """Everything `fairsilo train` can be told; None means the default of the data set.

    Method, model, notion and solver may be objects instead of names.
    """

    data: str
    label: str | None = None
    protected_class: str | None = None
    group: str | None = None
    groups: tuple[str, ...] | None = None
    against: str = "pairs"
    pool: int | None = None
    drop_group: bool = False
    category: tuple[str, ...] = ()
    """Columns that are categories whatever they look like, such as codes."""
    number: tuple[str, ...] = ()
    """Columns that are numbers."""
    drop: tuple[str, ...] = ()
    """Columns that are no features."""
    features: tuple[str, ...] = ()
    """The only columns that are features; none named: all."""
    groupless: str = "train"
    """What becomes of rows without a group: they train the objective only, or are refused."""
    sep: str = ","
    decimal: str = "."
    thousands: str = ""
    client: str | None = None
    client_names: tuple[str, ...] = ()
    """The clients of that column, under differential privacy, where the rows must not tell."""
    clients: int | None = None
    partition: str = "iid"
    alpha: float = ALPHA
    split: str | None = None
    test_fraction: float | None = None
    seed: int = 0
    method: str = DEFAULT_METHOD.name
    after: str | None = None
    """What a method that repairs follows; None is plain training."""
    model: str = "lr"
    hidden: tuple[int, ...] | None = None
    """Sizes of a network's hidden layers, which become part of the model's name: "mlp-32-16"."""
    penalty: str | float | None = None
    """A strength, or how it is chosen (`PENALTIES`); None is the model's own default."""
    pairs: str | int | None = None
    """Pairs of features of an additive model: how many, or which ("age:hours,sex:race"); None is
    the model's own default."""
    solver: str | Solver | None = None
    estimator: str = "pooled"
    notion: str = DEFAULT.name
    epsilon: float = None  # type: ignore[assignment]
    """The limit on losses. None is the default: a target in rates where the notion is about rates
    and the method takes one, else 0.05."""
    epsilons: tuple[tuple[str, float], ...] = ()
    """Pairs of groups with a limit of their own, such as ("Female:Male", 0.05)."""
    target_deo: float | None = None
    target_by: str = "proxy"
    target_confidence: float | None = None
    """With which confidence the target is promised for the population."""
    weight: str | None = None
    """Column with the rows' weights: a row of weight u counts as u rows."""
    maximum_weight: float | None = None
    """Under differential privacy, the largest of them."""
    class_weight: ClassWeights | None = None
    """What a row of a class weighs in the objective, such as "yes=3", or "balanced"."""
    decide_at: str | None = None
    """From which probability on the second of two classes is predicted: a number, or how to choose
    it on the training rows; None is 0.5."""
    local_epochs: int | None = None
    """Epochs that every client trains by itself in a round of AGP; None is one step on all rows."""
    batch: int | None = None
    """Rows of a step in these epochs; None is all of the client's."""
    rounds: int | None = None
    early_stopping: bool = False
    """Whether to stop where the loss of rows that are set aside is lowest."""
    start_from: Path | None = None
    """A run folder from whose model training starts, instead of from zero."""
    engine: str = "pooled"
    variant: str = "default"
    data_dir: Path | None = None
    schema: Path | None = None
    min_cell: int = 0
    dp_epsilon: float | None = None
    dp_delta: float = 1e-5
    dp_split: tuple[float, float, float] = (0.1, 0.75, 0.15)
    dp_clip: float = 1.0
    dp_noise: str = "shared"

    def __post_init__(self) -> None:
        for name in ("category", "number", "drop", "features", "client_names"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "class_weight", class_weights_of(self.class_weight))
        choose("groupless", self.groupless, GROUPLESS)
        _ = self.dialect
        for name, known in (("method", METHODS), ("model", MODELS), ("notion", NOTIONS)):
            object.__setattr__(self, name, known.name_of(getattr(self, name)))
        choose("method", self.method, METHODS)
        check_after(self)
        object.__setattr__(self, "model", with_sizes(self.model, self.hidden))
        choose("model", self.model, MODELS)
        choose("estimator", self.estimator, ESTIMATORS)
        choose("partition", self.partition, KINDS)
        choose("engine", self.engine, ENGINES)
        if isinstance(self.solver, str):
            choose("solver", self.solver, SOLVERS)
        choose("notion", self.notion, NOTIONS)
        self._limit_by_default()
        self._check_compared()
        choose("target_by", self.target_by, TARGET_BY)
        check_limits(self)
        check_local(self)
        self._check_penalty()
        self._check_pairs()
        check_weights(self)
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise FairSiloError(f"`alpha` is {self.alpha}: give a number above 0, such as 0.5")
        if self.rounds is not None and self.rounds < 1:
            raise FairSiloError(f"`rounds` is {self.rounds}: give at least 1")
        check_start(self)
        check_stopping(self)
        check_seed(self.seed)
        self._check_decision()
        self._check_shares()
        if self.min_cell < 0:
            raise FairSiloError(f"`min_cell` is {self.min_cell}: give 0 or more rows, such as 5")
        if self.min_cell and not METHODS[self.after or self.method].shared:
            shared = " and ".join(name for name, one in METHODS.items() if one.shared)
            raise FairSiloError(
                f"`min_cell` is for the constraints of {shared} and not for {self.method}: "
                "leave it out"
            )
        if self.dp_epsilon is not None:
            choose("dp_noise", self.dp_noise, NOISE)
            check_private(self, self.dp_epsilon)

    def _check_decision(self) -> None:
        """Validate where the model decides."""
        if self.decide_at is None:
            return
        given = check_decision(self.decide_at)
        if METHODS[self.method].own_models or METHODS[self.method].decides:
            raise FairSiloError(
                f"`decide_at` is for one model and {self.method} has one for every client, or "
                "decides by group: leave it out"
            )
        if self.target_deo is not None and given is None:
            raise FairSiloError(
                "`target_deo` limits rates of decisions, and what `decide_at` chooses is known "
                "after training alone: train without `target_deo` first, and give the number that "
                "was chosen, such as 0.3; or limit losses with `epsilon`"
            )
        if given is None and self.dp_epsilon is not None:
            raise FairSiloError(
                "what `decide_at` chooses on training rows is not covered by `dp_epsilon`: give a "
                "number, such as 0.3"
            )

    def _check_shares(self) -> None:
        """Validate who holds which row, and which rows are for testing."""
        if self.client is not None and self.clients is not None:
            raise FairSiloError("give `client` or `clients`, not both")
        if self.client_names and (self.client is None or self.dp_epsilon is None):
            raise FairSiloError(
                "`client_names` declares the values of `client` for `dp_epsilon`: give both, or "
                "leave it out"
            )
        if len(set(self.client_names)) < len(self.client_names):
            raise FairSiloError("a name occurs twice in `client_names`: name every client once")
        if self.client is not None and self.partition != "iid":
            raise FairSiloError(
                f"`partition` {self.partition} deals rows out and `client` {self.client} says who "
                "holds them: give one of the two"
            )
        if self.alpha != ALPHA and self.partition != "dirichlet":
            raise FairSiloError(
                f"`alpha` is for `partition` dirichlet and not {self.partition}: leave it out"
            )
        if self.split is not None and self.test_fraction is not None:
            raise FairSiloError("give `split` or `test_fraction`, not both")

    @property
    def solver_name(self) -> str | None:
        """The solver's name, where one is asked for."""
        return self.solver if isinstance(self.solver, str | None) else self.solver.name

    @property
    def dialect(self) -> Dialect:
        """How CSV files are written."""
        return Dialect(self.sep, self.decimal, self.thousands)

    def _limit_by_default(self) -> None:
        """A limit for who gave none."""
        if METHODS[self.method].decides and self.target_deo is None:
            object.__setattr__(self, "target_deo", TARGET)
        if self.epsilon is not None:
            return
        takes = METHODS[self.method].targets and self.dp_epsilon is None and not self.epsilons
        # What is chosen after training cannot be limited in it.
        takes = takes and (self.decide_at is None or check_decision(self.decide_at) is not None)
        if NOTIONS[self.notion].by_rates and takes and self.target_deo is None:
            object.__setattr__(self, "target_deo", TARGET)
        object.__setattr__(self, "epsilon", EPSILON)

    def _check_compared(self) -> None:
        """Validate notion, against, epsilon and pool."""
        choose("against", self.against, AGAINST)
        for limit in (self.epsilon, *(limit for _, limit in self.epsilons)):
            if not (math.isfinite(limit) and limit >= 0):
                raise FairSiloError(
                    f"`epsilon` is {limit}: give a number of at least 0, such as 0.05"
                )
        if self.pool is not None and self.pool < 0:
            raise FairSiloError(f"`pool` is {self.pool}: give a number of rows, 0 for no pooling")

    @property
    def binned(self) -> bool:
        """Whether the model's numbers are steps, which are found from the rows."""
        return MODELS[self.model](1, 2).binned

    @property
    def strength(self) -> float | str | None:
        """Of the penalty: a number, "auto", "validation", or None for no penalty."""
        given = self.penalty
        penalised = METHODS[self.after or self.method].penalised
        if given is None and penalised and self.binned:
            return "auto" if self.solver_name in (None, "newton") else 1.0
        try:
            return None if given in (None, "none") else float(given)
        except ValueError:
            return str(given)

    @property
    def crossed(self) -> int | tuple[tuple[str, str], ...]:
        """How many pairs of features are looked for, or which are named."""
        if self.pairs is None:
            penalised = METHODS[self.after or self.method].penalised
            # To find pairs would cost privacy: they are named or there are none.
            return PAIRS if penalised and self.binned and self.dp_epsilon is None else 0
        text = str(self.pairs)
        if text.lstrip("-").isdigit():
            return int(text)
        named = [part.strip().split(":") for part in text.split(",")]
        if any(len(pair) != 2 or not all(pair) for pair in named):
            raise FairSiloError(
                f"`pairs` {text!r} cannot be read: give a number, such as 10, or pairs of columns, "
                "such as age:hours,sex:race"
            )
        return tuple((a.strip(), b.strip()) for a, b in named)

    def _check_pairs(self) -> None:
        crossed = self.crossed
        if isinstance(crossed, int) and not 0 <= crossed <= MOST_PAIRS:
            raise FairSiloError(f"`pairs` is {crossed}: give a number from 0 to {MOST_PAIRS}")
        if crossed and not self.binned:
            raise FairSiloError(
                f"`pairs` is for `model` additive and not for {self.model}: leave it out"
            )
        trains = METHODS[self.after or self.method]
        if crossed and not trains.penalised:
            raise FairSiloError(
                f"`pairs` are found and penalised over all clients, and {trains.name} has none of "
                "that: leave it out, or use another method"
            )

    def _check_penalty(self) -> None:
        strength = self.strength
        if isinstance(strength, str):
            choose("penalty", strength, (*PENALTIES, "a number such as 1"))
        elif strength is not None and not (math.isfinite(strength) and strength >= 0):
            raise FairSiloError(f"`penalty` is {strength}: give a number of at least 0, such as 1")
        if strength is None:
            return
        exact = MODELS[self.model](1, 2).linear and self.solver_name in (None, "newton")
        if strength == "auto" and not exact:
            raise FairSiloError(BY_AIC)
        trains = METHODS[self.after or self.method]
        if not trains.penalised:
            raise FairSiloError(
                f"`penalty` is for methods with one objective over all clients and not for "
                f"{trains.name}: leave it out"
            )
        if self.dp_epsilon is not None and isinstance(strength, str) and self.penalty is not None:
            raise FairSiloError(
                f"`penalty` {strength} looks at exact sums, which `dp_epsilon` forbids: give a "
                "number, such as 1"
            )
