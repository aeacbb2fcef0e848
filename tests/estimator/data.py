"""Small tables for the tests of the estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from fairsilo.data import make_table


@dataclass(frozen=True)
class Table:
    """The arguments of `fit`, from one table."""

    X: pd.DataFrame
    y: pd.Series[Any]
    group: pd.Series[Any]
    client: pd.Series[Any]

    @property
    def extra(self) -> dict[str, Any]:
        """The keywords of `fit`."""
        return {"sensitive_features": self.group, "clients": self.client}


def split(frame: pd.DataFrame) -> Table:
    """Split a table into arguments; the group stays a feature, as on the command line."""
    return Table(
        frame.drop(columns=["label", "client"]), frame["label"], frame["group"], frame["client"]
    )


def table(rows: int = 400, **settings: Any) -> Table:
    """A biased table with numbers and a category."""
    return split(make_table(rows, **{"bias": 1.5, "seed": 1, **settings}))
