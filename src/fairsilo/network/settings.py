"""What a silo says of itself, in a file of its own that the server never sees or sets."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fairsilo.errors import FairSiloError

ANSWERS = 2000
"""The answers to one run that a silo gives unless its settings say otherwise: about twice what a
private run by AGP asks, since a question may be asked again."""

SCORE = 2e3
"""Honest questions stay well below it, as docs/threat-model.md measures."""

PATHS = (
    "federation",
    "data",
    "key",
    "passphrase_file",
    "ledger",
    "models",
    "approvals",
    "witnessed",
)
"""The settings that are paths."""


class Settings(BaseModel):
    """The table, the key and what the silo refuses. Paths count from the settings file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    federation: Path
    data: Path | None = None
    """A CSV or Parquet file, or instead of it:"""
    sep: str = ","
    decimal: str = "."
    thousands: str = ""
    """How a CSV file is written, as `fairsilo train` has these options."""
    url: str | None = None
    """A database as SQLAlchemy addresses it, with a `query`."""
    query: str | None = None
    key: Path | None = None
    """The silo's private node key; secure aggregation signs with it."""
    passphrase_file: Path | None = None
    """Where the key has a passphrase and nobody is there to type it: a file with it."""
    superlink: str | None = None
    """HOST:PORT of the SuperLink that the silo's own program connects to."""
    approve: Literal["ask", "listed", "always"] = "listed"
    """When the silo answers a run: after its owner's yes to this very run, after a yes to its
    federation file once, or always."""
    approvals: Path = Path("approvals.json")
    """What the owner said yes and no to, and what waits for an answer; see `approval`."""
    members: Literal["confirmed", "any"] = "confirmed"
    """Whose keys the owner must have confirmed before the silo answers: all other silos', or
    nobody's."""
    minimum_rows: int = Field(default=50, ge=1)
    minimum_cell: int = Field(default=5, ge=1)
    """Constrained cells (a group within the protected class) of fewer rows take no part."""
    methods: tuple[str, ...] | None = None
    """The methods that the silo answers for, and "audit"; None: for all."""
    maximum_answers: int = Field(default=ANSWERS, ge=1)
    """How many questions of one run the silo answers."""
    maximum_score: float = Field(default=SCORE, gt=0)
    """The largest score, over the declared ranges of the columns, that a question's theta may give
    (`bounds`); under differential privacy it does not count."""
    maximum_audits: int = Field(default=10, ge=0)
    """How many different models may be audited on one table (`audited`)."""
    ledger: Path = Path("ledger.json")
    """What this silo released and over whom its counts were opened, in all runs; see `ledger`.
    Not named, it lies beside the table, so that every federation counts in the same file."""
    models: Path = Path("models")
    """Where the silo keeps models of its own, which training separately and repairs leave."""
    witness: bool = False
    """Whether this is no silo but a witness, who has no rows and signs what follows."""
    witnessed: Path = Path("witnessed")
    """Where a witness keeps what it saw of each training."""
    plain: bool = False
    """Whether the silo also answers without secure aggregation."""
    dp_budget_epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """What all runs together may spend of a row's privacy. With it the silo answers only where the
    federation file has differential privacy, without it only where it has none."""
    dp_budget_delta: float = Field(default=1e-5, gt=0, lt=1)

    audit_predictions: str | None = None
    """For audits of another model: the column with the class that it predicts."""
    audit_probability: tuple[str, ...] = ()
    """The column with its probability of the protected class, or CLASS=COLUMN for each class."""

    @property
    def left(self) -> Path:
        """The list of all that left the silo, beside the ledger; see `left`."""
        return self.ledger.with_name("left.jsonl")

    def answers_for(self, purpose: str) -> bool:
        """Whether the silo takes part in that method, or in audits."""
        return self.methods is None or purpose in self.methods

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.witness:
            if self.data is not None or self.url is not None:
                raise ValueError("a witness has no rows: leave data and url out")
            return self
        if (self.data is None) == (self.url is None):
            raise ValueError("give either data (a file) or url and query (a database)")
        if (self.url is None) != (self.query is None):
            raise ValueError("url and query go together")
        return self


def read_settings(path: Path) -> Settings:
    """Read a silo's settings; relative paths become paths beside the settings file."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise FairSiloError(
            f"cannot read the silo's settings {path} ({error.strerror}): go to its folder, or name "
            "it by `settings`"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise FairSiloError(f"{path} is not valid TOML ({error}): correct it") from None
    try:
        settings = Settings.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise FairSiloError(
            f"{path}: {where + ': ' if where else ''}{first['msg']}: correct the silo's settings"
        ) from None
    beside = path.resolve().parent
    moved = {
        name: beside / value for name in PATHS if (value := getattr(settings, name)) is not None
    }
    if "ledger" not in settings.model_fields_set and "data" in moved:
        moved["ledger"] = moved["data"].parent / settings.ledger
    return settings.model_copy(update=moved)
