"""The federation file: what the parties agreed on, word for word, and its fingerprint.

Every silo keeps its own copy and compares fingerprints out of band. A question that names
another fingerprint is refused, so that the server cannot change the agreement alone.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairsilo.arrays import Floats, Ints
from fairsilo.data.encoder import Encoder
from fairsilo.data.groups import pool
from fairsilo.data.schema import Number, Schema
from fairsilo.errors import FairSiloError
from fairsilo.fairness import DEFAULT
from fairsilo.method import DEFAULT as DEFAULT_METHOD
from fairsilo.method import METHODS, Method
from fairsilo.method.lco import check_solver
from fairsilo.method.promise import PATH
from fairsilo.model import MODELS
from fairsilo.network.encoding import OTHER_ENCODER, encoder_of, scalings_of
from fairsilo.network.lasting import Lasting
from fairsilo.network.member import Member
from fairsilo.question import Problem, Unfit
from fairsilo.run.constraints import protected_of
from fairsilo.run.crossing import check_named
from fairsilo.run.decide import check_two_classes
from fairsilo.run.options import Options
from fairsilo.run.problem import (
    Posed,
    blank_encoder,
    plan,
    pooled_below,
    posed_from,
    unencoded,
)
from fairsilo.threshold import smallest_sum

FILE = "federation.json"
FORMAT = 2
SET_UP = 7
"""The questions before the first round, and the last: columns, counts (twice), evaluation; of a
model with steps histograms (twice) and pairs."""
STEPPED = ("histogram", "crossings", "noisy-histogram")
"""The kinds of questions that a model with steps has of its own."""
LATER = (
    *("penalty", "pairs", "decide_at", "target_confidence", "witnesses", "quorum"),
    *("weight", "maximum_weight", "class_weight", "local_epochs", "batch"),
    "early_stopping",
)
"""Fields that came later: where they are not set, they are no part of the text."""


class Privacy(BaseModel):
    """Differential privacy of a training row: the promise of a run, and how it is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    split: tuple[float, float, float] = (0.1, 0.75, 0.15)
    """The shares of encoder, objective and constraint."""
    clip: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The longest gradient of a row."""


class FederationFile(Lasting):
    """The agreement: table, groups, method, who takes part, how private.

    The options of a training have the names that `Options` has, and are checked there.
    """

    format: Literal[2] = 2
    name: str = "federation"
    table: Schema
    groups: tuple[str, ...] | None = None
    """The groups to compare; None is all, after small ones are pooled."""
    protected_class: str
    hidden: tuple[str, ...] = ()
    """The columns that name the group, which AF's adversary must not see."""
    method: str = DEFAULT_METHOD.name
    after: str | None = None
    model: str = "lr"
    penalty: str | float | None = None
    pairs: str | int | None = None
    solver: str | None = None
    estimator: str = "pooled"
    notion: str = DEFAULT.name
    against: str = "pairs"
    pool: int | None = None
    epsilon: float = 0.05
    """The largest gap of losses; for af its trade-off tau."""
    epsilons: tuple[tuple[str, float], ...] = ()
    target_deo: float | None = None
    target_by: str = "proxy"
    target_confidence: float | None = None
    decide_at: str | None = None
    """Where a model of two classes decides, as `fairsilo train` has it; None is at 0.5."""
    weight: str | None = None
    """The column with the rows' weights; None: every row counts as one."""
    maximum_weight: float | None = None
    class_weight: str | tuple[tuple[str, float], ...] | None = None
    local_epochs: int | None = None
    batch: int | None = None
    """Rows of a step in local epochs; None is all of a silo's."""
    early_stopping: bool | None = None
    rounds: int = Field(default=150, ge=1)
    seed: int = 0
    split: str | None = None
    """A column with the values train and test; without one every silo draws its test rows."""
    test_fraction: float = Field(default=0.2, gt=0, lt=1)
    silos: tuple[Member, ...]
    minimum_silos: int = Field(default=2, ge=1)
    """With fewer silos left, training stops."""
    secure_aggregation: bool = True
    """Whether the server sees only sums over at least `threshold` silos."""
    threshold: int | None = None
    """How many silos must be left to open a sum; default floor(2N/3) + 1, at least 3."""
    witnesses: tuple[Member, ...] = ()
    """Parties without rows who replay the training: silos answer no question of a training that
    they did not sign."""
    quorum: int | None = Field(default=None, ge=1)
    """How many of the witnesses must sign; None: all."""
    recount: bool = False
    """Whether rows may be counted again after the loss of one single silo, which under secure
    aggregation shows that silo's counts to the server. Without it training stops and can be
    resumed when the silo is back."""
    dp: Privacy | None = None
    """Differential privacy of all that the silos release in training; None is none."""

    @model_validator(mode="before")
    @classmethod
    def _earlier(cls, values: Any) -> Any:
        """Silos sign the list of survivors always; files of earlier versions say whether."""
        if isinstance(values, dict) and "signed_survivors" in values:
            values = {key: one for key, one in values.items() if key != "signed_survivors"}
        return values

    @model_validator(mode="after")
    def _trainable(self) -> Self:
        try:
            options = self.options()
            protected_of(self.table, self.protected_class)
            check_named(options.crossed, [feature.name for feature in self.table.features])
            # Which groups are pooled is known when the rows are counted.
            if not pooled_below(options, self.table):
                problem = self.problem(scalings_of(blank_encoder(options, self.table)))
                for name in filter(None, (self.method, self.after)):
                    METHODS[name].check(problem)
                check_two_classes(self.decide_at, problem)
                if "local" in self.asks:
                    check_solver(problem)
        except FairSiloError as error:
            raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [one.name for one in self.parties]
        if len(set(names)) < len(names):
            raise ValueError("two silos have the same name, or a silo and a witness")
        keys = [key.split()[1:2] for one in self.parties for key in one.keys]
        if any(keys.count(key) > 1 for key in keys):
            # A witness sees the totals: a silo that saw them could read another's rows by lying.
            raise ValueError("two silos have the same public key, or a silo and a witness")
        if self.witnesses and not self.secure_aggregation:
            raise ValueError("witnesses need secure aggregation, whose answers are signed")
        if (self.quorum or 0) > len(self.witnesses):
            raise ValueError("quorum is more than there are witnesses")
        if self.quorum is not None and 2 * self.quorum <= len(self.witnesses):
            # Two halves could sign two questions of one number.
            raise ValueError("quorum must be more than half of the witnesses")
        if self.split is not None and self.split in (self.table.label, *self.table.columns):
            raise ValueError("the split column must be neither label nor feature")
        if self.weight is not None and self.weight in self.table.columns:
            raise ValueError("the column of weights must not be a feature")
        if self.minimum_silos > len(self.silos):
            raise ValueError("minimum_silos is more than there are silos")
        return self

    @model_validator(mode="after")
    def _private(self) -> Self:
        if self.dp is None:
            return self
        if self.split is None:
            raise ValueError(
                "differential privacy needs a split column: which rows are drawn for testing would "
                "change with every row that comes or goes"
            )
        for feature in self.table.features:
            if isinstance(feature, Number) and feature.bounds is None:
                raise ValueError(
                    f"column {feature.name!r} has no declared bounds, which differential privacy "
                    "needs"
                )
        return self

    def options(self, data: str | None = None, client: str | None = None) -> Options:
        """The options of `fairsilo train`; with a column that names the silo of a row, those of
        the simulation."""
        table = self.table
        private: dict[str, Any] = {}
        if self.dp is not None:
            private = {f"dp_{name}": value for name, value in self.dp.model_dump().items()}
            private["dp_noise"] = "shared" if self.secure_aggregation else "full"
            private["client_names"] = () if client is None else self.names
        same = ("method", "after", "model", "penalty", "pairs", "solver", "estimator", "notion")
        limits = ("epsilon", "epsilons", "target_deo", "target_by", "target_confidence")
        weights = ("weight", "maximum_weight", "class_weight", "local_epochs", "batch")
        more = ("against", "pool", *limits, "decide_at", *weights, "rounds", "seed", "split")
        return Options(
            data=data or self.name,
            label=table.label,
            protected_class=self.protected_class,
            group=",".join(table.group_columns) or table.group,
            groups=self.groups,
            early_stopping=bool(self.early_stopping),
            drop_group=not set(table.group_columns or (table.group,)) <= set(table.columns),
            client=client,
            test_fraction=None if self.split else self.test_fraction,
            # A silo's answer is clientwise; sums over pooled rows would differ in last bits.
            engine="pooled" if client is None else "clientwise",
            **{name: getattr(self, name) for name in (*same, *more)},
            **private,
        )

    @property
    def spec(self) -> Method:
        """The method."""
        return METHODS[self.method]

    @property
    def trains(self) -> Method:
        """The method that trains: what a repair follows, where it follows one."""
        return METHODS[self.after or self.method]

    @property
    def protected(self) -> list[int]:
        """The protected classes as indices."""
        return protected_of(self.table, self.protected_class)

    @property
    def asks(self) -> frozenset[str]:
        """The kinds of questions that the method, what it follows and the model have."""
        before = METHODS[self.after].asks if self.after is not None else ()
        steps = STEPPED if MODELS[self.model](1, 2).binned else ()
        return frozenset((*self.spec.asks, *before, *steps))

    @property
    def smallest_sum(self) -> int:
        """The fewest silos whose sum anybody can see; their noise alone must be enough."""
        return smallest_sum(len(self.silos), self.secure_aggregation, self.threshold)

    @property
    def signers(self) -> int:
        """How many witnesses must sign a question."""
        return len(self.witnesses) if self.quorum is None else self.quorum

    @property
    def trainings(self) -> int:
        """How often a run trains at most, but for a model without limits to compare with."""
        solved = 1
        if self.target_deo is not None:
            # Without limits, then with them; a search and a promise try several.
            solved = 17 if self.target_by == "search" else 2
        if self.target_confidence is not None:
            solved = 1 + len(PATH)
        options = self.options()
        chosen = {"validation": 7, "auto": 1}.get(str(options.strength), 0)
        tried = self.rounds.bit_length() if self.early_stopping else 0
        return solved + chosen + 2 * bool(options.crossed) + tried

    @property
    def sets_aside(self) -> bool:
        """Whether silos may be asked to train without the rows that they set aside."""
        searches = self.target_deo is not None and self.target_by == "search"
        promises = self.target_confidence is not None
        return searches or promises or self.penalty == "validation" or bool(self.early_stopping)

    @property
    def questions(self) -> int:
        """What a run asks of a silo at most, undisturbed: to count, the rounds, to evaluate."""
        # Where to decide is chosen from histograms, for the baseline, too.
        chosen = 2 * (self.decide_at is not None)
        return SET_UP + self.rounds * self.trainings + self.spec.setup + 3 * self.trainings + chosen

    @property
    def parties(self) -> tuple[Member, ...]:
        """All who have a key: silos and witnesses."""
        return (*self.silos, *self.witnesses)

    @property
    def names(self) -> tuple[str, ...]:
        """The silos' names."""
        return tuple(silo.name for silo in self.silos)

    def pooled_schema(self, cells: Ints | None) -> Schema:
        """The table's schema, its small groups pooled as the counts over all silos say."""
        smallest = pooled_below(self.options(), self.table)
        if cells is None or not smallest:
            return self.table
        return pool(self.table, cells[:, self.protected], smallest)

    def posed(self, encoder: Encoder, cells: Ints | None = None) -> Posed:
        """What is trained, once the encoder is known."""
        return posed_from(
            self.options(), self.pooled_schema(cells), encoder,
            protected=self.protected, groups=self.groups, hidden=self.hidden,
        )  # fmt: skip

    def problem(self, scalings: Floats | None, cells: Ints | None = None) -> Problem:
        """The problem as a silo knows it: with the encoder's numbers, or before there are any."""
        options, schema = self.options(), self.pooled_schema(cells)
        if scalings is None:
            return unencoded(options, schema)
        encoder = encoder_of(schema, scalings)
        problem = plan(options, self.posed(encoder, cells))
        binned = encoder.binned
        if problem.model.binned != (binned is not None):
            raise Unfit(OTHER_ENCODER)
        wanted = options.crossed
        most = wanted if isinstance(wanted, int) else len(wanted)
        if binned is not None and len(binned.pairs) > most:
            raise Unfit(OTHER_ENCODER)
        return problem

    @cached_property
    def text(self) -> str:
        """The one text that the fingerprint is taken of.

        A file that does not use what later versions added has the text of earlier ones.
        """
        content = self.model_dump(mode="json")
        for name in LATER:
            if content[name] in (None, []):
                del content[name]
        for party in (*content["silos"], *content.get("witnesses", ())):
            # Likewise where nobody has changed a key.
            if not party["past"]:
                del party["past"]
        return json.dumps(content, indent=2, sort_keys=True) + "\n"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of `text`: read it to each other over the telephone."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def read_federation_file(path: Path) -> FederationFile:
    """Read and check a federation file."""
    try:
        text = path.read_text()
    except OSError as error:
        raise FairSiloError(
            f"cannot read the federation file {path} ({error.strerror}): give the file that "
            "`fairsilo flower init` wrote"
        ) from None
    try:
        return _checked(text)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("format",):
            raise FairSiloError(
                f"{path} is a federation file of format {first['input']!r} and this version of "
                f"fairsilo reads format {FORMAT}: make it anew with `fairsilo flower init`"
            ) from None
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise FairSiloError(
            f"{path} is not a valid federation file ({where}: {first['msg']}): get it anew from "
            "the coordinator"
        ) from None


@lru_cache(maxsize=8)
def _checked(text: str) -> FederationFile:
    """Checked once: a silo reads its file for every message."""
    return FederationFile.model_validate_json(text)


def readable(fingerprint: str) -> str:
    """The fingerprint in groups of four, for reading aloud."""
    return " ".join(fingerprint[i : i + 4] for i in range(0, len(fingerprint), 4))
