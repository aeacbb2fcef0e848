"""Which of a table's columns are read: no other takes memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """The columns to read, and those of them that are features or nothing.

    Of a feature with too many different texts for a category these are counted and not kept.
    """

    columns: Collection[str]
    features: Collection[str] = ()


Choice = Callable[[Sequence[str]], Asked]
"""Says by the names of a table's columns which are asked for."""


def everything(names: Sequence[str]) -> Asked:
    """All columns."""
    return Asked(names)


def only(*wanted: str | None, also: Collection[str | None] = ()) -> Choice:
    """These columns; if one is not there all are read, for the error says what there is.

    `also`: further ones, where they are there.
    """

    def choose(names: Sequence[str]) -> Asked:
        named = {name for name in wanted if name is not None}
        return Asked(
            named.union(name for name in also if name is not None) if named <= {*names} else names
        )

    return choose


def of_probabilities(named: Sequence[str]) -> list[str]:
    """All columns that COLUMN or CLASS=COLUMN may mean; both may have an equals sign in them."""
    parts = [text.split("=") for text in named]
    return ["=".join(part[k:]) for part in parts for k in range(len(part))]
