"""How a column is read: as numbers, or as texts with a code per row.

A category is compared as text, in one spelling (`1`, `1.0` and "1" are all "1"), so that a table
from Parquet and the same table from CSV have the same vocabulary. CSV has no types: one
follows from all cells of a column. If a schema declares the column, every cell is read by itself.
"""

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.errors import FairSiloError

MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""The usual words for a missing value: those of pandas."""
MAX_VALUES = 1000
"""More distinct values than this make a column free text or an identifier, not a category."""
SHOWN = 40
"""So many characters of a wrong cell are quoted."""


def column(frame: pd.DataFrame, name: str) -> "pd.Series[Any]":
    """Return the column; the error for an unknown name suggests similar ones."""
    if name in frame.columns:
        return frame[name]
    raise FairSiloError(absent(name, frame.columns))


def absent(name: str, known: Iterable[Any]) -> str:
    """The sentence for a name that no column has, with similar ones."""
    names = [str(other) for other in known]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    # Wrong case and stray blanks are the usual slips; difflib counts them as differences.
    close += [n for n in names if n.strip().lower() == name.strip().lower() and n not in close]
    if close:
        guess = " or ".join(map(repr, close))
        return f"there is no column {name!r} in the table; did you mean {guess}?"
    shown = ", ".join(names[:12]) + (", and others" if len(names) > 12 else "")
    return f"there is no column {name!r} in the table; it has {shown}"


def is_number(series: "pd.Series[Any]") -> bool:
    """Say whether the column is numeric; true/false is a category, not a number."""
    dtype = series.dtype
    return (
        pd.api.types.is_numeric_dtype(dtype)
        and not pd.api.types.is_bool_dtype(dtype)
        and not pd.api.types.is_complex_dtype(dtype)
    )


def numbers(series: "pd.Series[Any]", name: str) -> NDArray[np.float64]:
    """Return the column as float64 with NaN where missing; text and infinities are errors."""
    # Non-numeric types go through object, or pandas would turn dates into numbers.
    plain = series if pd.api.types.is_numeric_dtype(series.dtype) else series.astype(object)
    converted = pd.to_numeric(plain, errors="coerce")
    bad = (converted.isna() & series.notna()).to_numpy(dtype=np.bool_)
    if bad.any():
        # A silo's errors stay in the silo (`network.client`), so that they may quote a cell.
        first = str(plain.iloc[int(np.argmax(bad))])[:SHOWN]
        raise FairSiloError(
            f"column {name!r} must hold numbers but has text in {int(bad.sum())} rows, such as "
            f"{first!r}; correct these cells"
        )
    values = converted.to_numpy(dtype=np.float64, na_value=np.nan)
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise FairSiloError(
            f"column {name!r} is infinite in {infinite} rows; correct these cells or empty them"
        )
    return values


def readable(series: "pd.Series[Any]") -> NDArray[np.float64]:
    """The column as float64, NaN where a cell is missing, not a number or infinite.

    Every cell is read independently of the others.
    """
    if is_number(series):
        values = series.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        codes, cells = distinct(series)
        values = np.array([*map(_number, cells), np.nan])[codes]
    return np.where(np.isfinite(values), values, np.nan)


def _number(cell: object) -> float:
    try:
        return float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return np.nan


def distinct(series: "pd.Series[Any]") -> tuple[NDArray[np.int64], Sequence[Any]]:
    """A code per row (-1 where missing) and the value that each code stands for.

    Numbers are coded in ascending order.
    """
    if is_number(series):
        codes, values = pd.factorize(series, sort=True)
        return codes.astype(np.int64), list(values)
    try:
        column = pd.Categorical(series)
    except TypeError:
        raise FairSiloError(
            f"column {series.name!r} holds lists or tables; remove it or give one value a cell"
        ) from None
    codes = column.codes.astype(np.int64)
    used = np.bincount(codes + 1, minlength=len(column.categories) + 1)[1:] > 0
    place = np.append(np.cumsum(used) - 1, -1)
    return place[codes], list(column.categories[used])


def codes_and_texts(series: "pd.Series[Any]") -> tuple[NDArray[np.int64], list[str]]:
    """Return a code per row (-1 where missing) and the text that each code stands for."""
    codes, values = distinct(series)
    return codes, [_text(value) for value in values]


def as_declared(
    frame: pd.DataFrame, categories: Iterable[str], numeric: Iterable[str]
) -> pd.DataFrame:
    """The table with these columns as categories and as numbers, whatever they look like."""
    kinds: dict[str, Any] = {}
    for name in categories:
        codes, texts = codes_and_texts(column(frame, name))
        kinds[name] = pd.Categorical.from_codes(codes, pd.Index(texts, dtype=object))
    for name in numeric:
        if name in kinds:
            raise FairSiloError(f"column {name!r} is named as a category and as a number")
        kinds[name] = numbers(column(frame, name), name)
    return frame.assign(**kinds) if kinds else frame


def decimals_as_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """The table whose exact decimals, of Parquet or of a database, are numbers."""
    for name in frame.columns:
        if frame[name].dtype == object and pd.api.types.infer_dtype(frame[name]) == "decimal":
            frame[name] = pd.to_numeric(frame[name])
    return frame


def vocabulary(series: "pd.Series[Any]") -> tuple[str, ...]:
    """Return the distinct values as text: numbers in ascending order, texts sorted."""
    _, texts = codes_and_texts(series)
    return tuple(texts) if is_number(series) else tuple(sorted(set(texts)))


def positions(series: "pd.Series[Any]", values: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of each row's value in `values`: -1 if missing, -2 if not among them."""
    codes, texts = codes_and_texts(series)
    index = {value: position for position, value in enumerate(values)}
    # The extra last entry is the one that code -1 (missing) picks.
    lookup = np.array([index.get(text, -2) for text in texts] + [-1], dtype=np.int64)
    return lookup[codes]


def _text(value: object) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def writes_number(text: str) -> bool:
    """Whether a text is a number, true or false, in any common spelling."""
    return is_truth(text) or not np.isnan(_number(text))


def _plain(text: str) -> str:
    """The standard spelling of a number or true/false; any other text unchanged."""
    if is_truth(text):
        return text.strip().capitalize()
    return _text(_number(text)) if writes_number(text) else text


def is_truth(text: str) -> bool:
    """Whether a text says true or false."""
    return text.strip().lower() in ("true", "false")


def respelled(text: str, known: Sequence[str]) -> str:
    """The text as in `known`, if it is there in another spelling: `1.0` is `1`."""
    return text if text in known or _plain(text) not in known else _plain(text)
