"""The options of an audit, checked before anything is read."""

import math
from dataclasses import dataclass
from pathlib import Path

from fairsilo.data.dialect import Dialect
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.audit import DRAWS
from fairsilo.evaluate.intervals import LEVEL
from fairsilo.fairness import NOTIONS
from fairsilo.run.choices import check_seed, choose
from fairsilo.run.target_options import check_target

ROWS = ("test", "train", "all")
MOST_DRAWS = 1_000_000


@dataclass(frozen=True)
class AuditOptions:
    """The options of `fairsilo audit`; None means the value of the run or the table."""

    data: str
    model: Path | None = None
    predictions: str | None = None
    probability: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    label: str | None = None
    group: str | None = None
    groups: tuple[str, ...] | None = None
    protected_class: tuple[str, ...] | None = None
    client: str | None = None
    clients: int | None = None
    split: str | None = None
    rows: str | None = None
    epsilon: float | None = None
    notion: str | None = None
    target_deo: float | None = None
    min_cell: int = 0
    level: float = LEVEL
    draws: int = DRAWS
    seed: int = 0
    variant: str | None = None
    data_dir: Path | None = None
    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None

    def __post_init__(self) -> None:
        columns = self.predictions is not None or bool(self.probability)
        if self.model is None and not columns:
            raise FairSiloError(
                "there is nothing to audit: give `model` (a run folder or an .onnx file), or "
                "`predictions` or `probability` with a column of the table"
            )
        if self.model is not None and columns:
            raise FairSiloError("give `model`, or `predictions` and `probability`, not both")
        if self.rows is not None:
            choose("rows", self.rows, ROWS)
        if self.client is not None and self.clients is not None:
            raise FairSiloError("give `client` or `clients`, not both")
        if self.clients is not None and self.clients < 1:
            raise FairSiloError(f"`clients` is {self.clients}: give at least 1")
        if self.min_cell < 0:
            raise FairSiloError(f"`min_cell` is {self.min_cell}: give 0 or more rows")
        if not 0.5 <= self.level < 1:
            raise FairSiloError(f"`level` is {self.level}: give a share from 0.5 to below 1")
        if not 100 <= self.draws <= MOST_DRAWS:
            raise FairSiloError(f"`draws` is {self.draws}: give 100 to {MOST_DRAWS:,}")
        if self.epsilon is not None and not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise FairSiloError(
                f"`epsilon` is {self.epsilon}: give a number of at least 0, such as 0.05"
            )
        check_target(self.target_deo)
        if self.notion is not None:
            check_notion(self.notion)
        check_seed(self.seed)

    def dialect_from(self, run: Dialect) -> Dialect:
        """How the CSV file is written: as the run's own table, but for what is said."""
        return run.but(self.sep, self.decimal, self.thousands)


def check_notion(notion: str) -> None:
    """Refuse a notion that is unknown or has no rates."""
    choose("notion", notion, NOTIONS)
    if not NOTIONS[notion].rates:
        raise FairSiloError(
            f"`notion` {notion} is about losses alone, which every audit shows: leave it out"
        )
