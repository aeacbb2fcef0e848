"""Clients and test rows, taken from columns of the table."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from fairsilo.errors import FairSiloError
from fairsilo.partition.rows import Indices


def by_column(
    values: Iterable[object], *, column: str = "client"
) -> tuple[Indices, tuple[str, ...]]:
    """Return the client index of every row and the names of the clients, sorted.

    Numbers sort as numbers, so that client 10 comes after client 9.
    """
    cells = list(values)
    missing = sum(map(_missing, cells))
    if missing:
        raise FairSiloError(
            f"client column {column!r} is empty in {missing} rows; say who holds these rows or "
            "remove them"
        )
    distinct = {cell: _text(cell) for cell in set(cells)}
    numeric = all(
        isinstance(c, int | float | np.number) and not isinstance(c, bool) for c in distinct
    )
    names = sorted(set(distinct.values()), key=float if numeric else None)
    place = {name: k for k, name in enumerate(names)}
    index = {cell: place[name] for cell, name in distinct.items()}
    return np.array([index[cell] for cell in cells], dtype=np.int64), tuple(names)


def split_column(values: Iterable[object], *, column: str = "split") -> NDArray[np.bool_]:
    """Return whether each row is a test row, from cells `train` or `test` (case is ignored)."""
    cells = list(values)
    meaning = {cell: _part(cell, column) for cell in set(cells)}
    is_test = np.array([meaning[cell] for cell in cells], dtype=np.bool_)
    for part, absent in (("train", is_test.all()), ("test", not is_test.any())):
        if absent:
            raise FairSiloError(f"split column {column!r} has no {part} rows; mark some as {part}")
    return is_test


def _part(cell: object, column: str) -> bool:
    word = "" if _missing(cell) else str(cell).strip().lower()
    if word not in ("train", "test"):
        shown = repr(_text(cell)) if word else "an empty cell"
        raise FairSiloError(
            f"split column {column!r} holds {shown} where only train and test are allowed; "
            "correct these rows"
        )
    return word == "test"


def _missing(cell: object) -> bool:
    if isinstance(cell, str):
        return not cell.strip()
    if isinstance(cell, float | np.floating):
        return bool(np.isnan(cell))
    # pandas' markers for missing cells, by name, because this package does not import pandas.
    return cell is None or type(cell).__name__ in ("NAType", "NaTType")


def _text(cell: object) -> str:
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    return str(cell)
