"""Dates as numbers: days since 1970-01-01, with a fraction for the time of day."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.columns import MISSING, column, distinct, is_number, numbers
from fairsilo.data.schema import Date, Number
from fairsilo.errors import FairSiloError

ISO = "ISO8601"
"""pandas' name for 2024-01-31, with a time of day or without."""
LOOKS = re.compile(
    r"\s*\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?P<time>[ T]\d{1,2}:\d\d(?P<seconds>:\d\d)?)?"
)
FORMATS = {
    "-": (ISO, "%d-%m-%Y", "%m-%d-%Y"),
    "/": ("%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
    ".": ("%d.%m.%Y", "%Y.%m.%d", "%d.%m.%y"),
}
"""By the sign between its numbers, how a date may be written."""
DAY = np.timedelta64(1, "D")


def formats_of(texts: Iterable[str]) -> list[str]:
    """The ways in which all of these texts are dates; none: they are not."""
    known = [text for text in texts if text not in MISSING]
    first = LOOKS.match(known[0]) if known else None
    if first is None:
        return []
    time = "" if not first["time"] else " %H:%M:%S" if first["seconds"] else " %H:%M"
    formats = (one if one == ISO else one + time for one in FORMATS[first[1]])
    return [one for one in formats if not np.isnan(_parsed(known, one)).any()]


def is_date(series: "pd.Series[Any]") -> bool:
    """Whether the column has a type of dates, as Parquet files and databases have."""
    return pd.api.types.is_datetime64_any_dtype(series.dtype) or (
        series.dtype == object and pd.api.types.infer_dtype(series) in ("date", "datetime")
    )


def measured(frame: pd.DataFrame, feature: Number) -> NDArray[np.float64]:
    """A numeric feature of every row, NaN where missing; what cannot be read is an error."""
    series = column(frame, feature.name)
    if not isinstance(feature, Date) or is_number(series):
        return numbers(series, feature.name)
    values = days(series, feature.format)
    bad = int((np.isnan(values) & ~empty(series)).sum())
    if bad:
        raise FairSiloError(
            f"column {feature.name!r} must hold dates ({feature.format or 'of a date type'}) but "
            f"has something else in {bad} rows; correct these cells"
        )
    return values


def days(series: "pd.Series[Any]", written: str) -> NDArray[np.float64]:
    """Every cell by itself, NaN where it is missing or no date in this way of writing."""
    if is_number(series):
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if is_date(series):
        return _since(pd.to_datetime(series, errors="coerce", utc=True))
    codes, texts = distinct(series)
    return np.append(_parsed([str(text) for text in texts], written or ISO), np.nan)[codes]


def empty(series: "pd.Series[Any]") -> NDArray[np.bool_]:
    """Where a cell is empty or says that nothing is known."""
    return (series.isna() | series.isin(MISSING)).to_numpy(dtype=np.bool_)


def _parsed(texts: Sequence[str], written: str) -> NDArray[np.float64]:
    cells = pd.Series([text.strip() for text in texts], dtype=object)
    return _since(pd.to_datetime(cells, format=written, errors="coerce", utc=True))


def _since(moments: "pd.Series[Any]") -> NDArray[np.float64]:
    whole = moments.dt.tz_localize(None).to_numpy("datetime64[us]")
    values: NDArray[np.float64] = (whole - np.datetime64("1970-01-01")) / DAY
    return values
