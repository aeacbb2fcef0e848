"""Clients and test rows, taken from columns of the table."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fairsilo.errors import FairSiloError
from fairsilo.partition.rows import Indices


def by_column(
    codes: Indices, values: Sequence[object], *, column: str = "client"
) -> tuple[Indices, tuple[str, ...]]:
    """Return the client index of every row and the names of the clients, sorted.

    `codes` says which of the values a row has, -1 for none. Numbers sort as numbers, so that
    client 10 comes after client 9.
    """
    empty = np.array([*map(_missing, values), True])
    missing = int(empty[codes].sum())
    if missing:
        raise FairSiloError(
            f"client column {column!r} is empty in {missing} rows; say who holds these rows or "
            "remove them"
        )
    numeric = all(
        isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values
    )
    texts = list(map(_text, values))
    names = sorted(set(texts), key=float if numeric else None)
    place = {name: k for k, name in enumerate(names)}
    return np.array([place[text] for text in texts], np.int64)[codes], tuple(names)


def split_column(
    codes: Indices, values: Sequence[object], *, column: str = "split"
) -> NDArray[np.bool_]:
    """Return whether each row is a test row, of a table that has both kinds."""
    is_test = marked_test(codes, values, column=column)
    for part, absent in (("train", is_test.all()), ("test", not is_test.any())):
        if absent:
            raise FairSiloError(f"split column {column!r} has no {part} rows; mark some as {part}")
    return is_test


def marked_test(codes: Indices, values: Sequence[object], *, column: str) -> NDArray[np.bool_]:
    """Return whether each row is a test row, from cells `train` or `test` (case is ignored)."""
    meant = [_part(value, column) for value in ([*values, None] if (codes < 0).any() else values)]
    is_test: NDArray[np.bool_] = np.array(meant, np.bool_)[codes]
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
