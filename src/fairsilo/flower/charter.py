"""The federation file: what the parties agreed on, word for word, and its fingerprint.

Every silo keeps its own copy and compares fingerprints out of band. A question that names
another fingerprint is refused, so that the server cannot change the agreement alone.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairsilo.data.schema import Number, Schema
from fairsilo.dp import Budget, Clip, Plan, Split
from fairsilo.errors import FairSiloError
from fairsilo.fairness.constraint import Dgeo
from fairsilo.threshold import default_threshold

FILE = "federation.json"
SET_UP = 3
"""The questions before the first round: the encoder's sums, the counts, for AF columns."""


class Member(BaseModel):
    """A silo as the others know it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    public_key: str
    """One line in OpenSSH's format: ecdsa-sha2-nistp384 AAAA..."""


class Privacy(BaseModel):
    """Differential privacy of a training row: the promise of a run, and how it is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-5, gt=0, lt=1)
    split: tuple[float, float, float] = (0.1, 0.75, 0.15)
    """The shares of encoder, objective and constraint."""
    clip: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """The longest gradient of a row."""

    @property
    def budget(self) -> Budget:
        """What a run may spend."""
        return Budget(self.epsilon, self.delta)

    @property
    def bounds(self) -> Clip:
        """How much of one row can enter a sum."""
        return Clip(self.clip)


class Charter(BaseModel):
    """The agreement: table, groups, method, who takes part, how private."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    name: str = "federation"
    table: Schema
    groups: tuple[str, ...]
    protected_class: str
    method: Literal["fedfair", "lco", "fedavg", "af"] = "fedfair"
    model: Literal["lr", "mlp"] = "lr"
    solver: Literal["newton", "lbfgs", "agp"] = "newton"
    estimator: Literal["mean", "pooled"] = "pooled"
    epsilon: float = Field(default=0.05, ge=0, allow_inf_nan=False)
    """The largest DGEO; for af its trade-off tau."""
    rounds: int = Field(default=150, ge=1)
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
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
    signed_survivors: bool = False
    """Whether silos sign the list of survivors to each other before they open a sum: a third
    exchange a round, against a server that tells different silos different lists."""
    recount: bool = False
    """Whether rows may be counted again after the loss of one single silo, which under secure
    aggregation shows that silo's counts to the server. Without it training stops and can be
    resumed when the silo is back."""
    dp: Privacy | None = None
    """Differential privacy of all that the silos release in training; None is none."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.groups)) < 2 or not set(self.groups) <= set(self.table.groups):
            raise ValueError("groups must be at least two of the table's groups")
        if self.protected_class not in self.table.classes:
            raise ValueError("protected_class must be a class of the table")
        if self.method == "af" and (self.model != "lr" or len(set(self.groups)) != 2):
            raise ValueError("method af is for logistic regression and two groups")
        if self.method == "lco" and (self.model != "lr" or self.solver != "newton"):
            raise ValueError("method lco over silos is for logistic regression and newton")
        names = [silo.name for silo in self.silos]
        if len(set(names)) < len(names):
            raise ValueError("two silos have the same name")
        keys = [silo.public_key.split()[1:2] for silo in self.silos]
        if any(keys.count(key) > 1 for key in keys):
            raise ValueError("two silos have the same public key")
        if self.split is not None and self.split in (self.table.label, *self.table.columns):
            raise ValueError("the split column must be neither label nor feature")
        if self.minimum_silos > len(self.silos):
            raise ValueError("minimum_silos is more than there are silos")
        return self

    @model_validator(mode="after")
    def _private(self) -> Self:
        if self.dp is None:
            return self
        if self.method not in ("fedfair", "fedavg"):
            raise ValueError(f"method {self.method} has no differential privacy")
        if self.estimator == "mean":
            raise ValueError("estimator mean has no differential privacy: take pooled")
        if self.solver == "lbfgs" or (self.solver == "newton" and self.model == "mlp"):
            raise ValueError(f"solver {self.solver} does not train {self.model} under noise")
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
        try:
            Split(*self.dp.split)
        except FairSiloError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def plan(self) -> Plan:
        """The noise multiplier of every release of a private run."""
        assert self.dp is not None
        curvature = self.solver == "newton"
        return Plan.of(self.dp.budget, Split(*self.dp.split), self.rounds, curvature=curvature)

    @property
    def smallest_sum(self) -> int:
        """The fewest silos whose sum anybody can see; their noise alone must be enough.

        Where silos do not sign the list of survivors, a server that tells them different lists can
        open sums over fewer than the threshold t: over n - floor(n (n - t) / t) of n silos.
        """
        if not self.secure_aggregation:
            return 1
        silos = len(self.silos)
        t = default_threshold(silos) if self.threshold is None else self.threshold
        if self.signed_survivors:
            return t
        return min((n - n * (n - t) // t for n in range(t, silos + 1)), default=t)

    @property
    def constraints(self) -> tuple[Dgeo, ...]:
        """One constraint per pair of groups; none that the server sees for the others."""
        return self.pairs if self.method == "fedfair" else ()

    @property
    def pairs(self) -> tuple[Dgeo, ...]:
        """Every pair of groups in the protected class: what is measured in any case."""
        c = self.table.classes.index(self.protected_class)
        places = [self.table.groups.index(group) for group in self.groups]
        return tuple(Dgeo(a, b, c) for a, b in itertools.combinations(places, 2))

    @property
    def questions(self) -> int:
        """What a run asks of a silo at most, undisturbed: to count, the rounds, to evaluate."""
        return SET_UP + self.rounds + 1

    @property
    def shape(self) -> tuple[int, int]:
        """How many groups and classes the table has."""
        return len(self.table.groups), len(self.table.classes)

    @property
    def names(self) -> tuple[str, ...]:
        """The silos' names."""
        return tuple(silo.name for silo in self.silos)

    def to_json(self) -> str:
        """The one text that the fingerprint is taken of."""
        return json.dumps(self.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of `to_json`: read it to each other over the telephone."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def read_charter(path: Path) -> Charter:
    """Read and check a federation file."""
    try:
        text = path.read_text()
    except OSError as error:
        raise FairSiloError(
            f"cannot read the federation file {path} ({error.strerror}): give the file that "
            "`fairsilo flower init` wrote"
        ) from None
    try:
        return Charter.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise FairSiloError(
            f"{path} is not a valid federation file ({where}: {first['msg']}): get it anew from "
            "the coordinator"
        ) from None


def readable(fingerprint: str) -> str:
    """The fingerprint in groups of four, for reading aloud."""
    return " ".join(fingerprint[i : i + 4] for i in range(0, len(fingerprint), 4))
