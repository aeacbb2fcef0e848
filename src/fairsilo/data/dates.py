"""Dates as numbers: days since 1970-01-01, with a fraction for the time of day."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fairsilo.data.columns import MISSING, codes_and_texts, column, is_number, numbers
from fairsilo.data.schema import Date, Number
from fairsilo.errors import FairSiloError

ISO = "ISO8601"
"""pandas' name for 2024-01-31, with a time of day or without."""
COMPACT = "%Y%m%d"
"""20240131, which may also be a whole number."""
YEAR = r"(?:19|20)\d\d"
NAMED = tuple(
    written.replace("%b", month)
    for written in ("%d %b %Y", "%d-%b-%Y", "%d-%b-%y", "%d. %b %Y", "%b %d, %Y", "%b %Y", "%b-%Y")
    for month in ("%b", "%B")
)
"""With the name of a month: no such text can be read in two ways."""
FORMATS = {
    r"\d{1,4}-\d{1,2}-\d{1,4}": (ISO, "%d-%m-%Y", "%m-%d-%Y"),
    r"\d{1,4}/\d{1,2}/\d{1,4}": ("%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
    r"\d{1,4}\.\d{1,2}\.\d{1,4}": ("%d.%m.%Y", "%Y.%m.%d", "%d.%m.%y"),
    rf"{YEAR}-\d\d(?!\d)": ("%Y-%m",),
    rf"\d\d?/{YEAR}": ("%m/%Y",),
    rf"{YEAR}\d{{4}}": (COMPACT,),
    r"(?:\d{1,2}(?: |-|\. ))?[A-Za-z]{3,9}[ -]\d+(?:, \d+)?": NAMED,
}
"""By the look of a date, how it may be written."""
TIME = r"(?P<time>[ T]\d{1,2}:\d\d(?P<seconds>:\d\d)?)?"
LOOKS = [(re.compile(rf"\s*{look}{TIME}"), formats) for look, formats in FORMATS.items()]
DAY = np.timedelta64(1, "D")


def formats_of(texts: Iterable[str]) -> list[str]:
    """The ways in which all of these texts are dates; none: they are not."""
    known = [text for text in texts if text not in MISSING]
    if not known:
        return []
    for look, formats in LOOKS:
        if first := look.match(known[0]):
            time = "" if not first["time"] else " %H:%M:%S" if first["seconds"] else " %H:%M"
            tried = (one if one == ISO else one + time for one in formats)
            found = [one for one in tried if all(_all_dates(k, one) for k in (known[:1], known))]
            return found[:1] if formats is NAMED else found
    return []


def _all_dates(texts: Sequence[str], written: str) -> bool:
    return not np.isnan(_parsed(texts, written)).any()


def are_compact(values: NDArray[np.float64]) -> bool:
    """Whether numbers are all days from 1900 to 2100, each written as 20240131."""
    known = values[~np.isnan(values)]
    if not len(known) or known.min() < 1900_01_01 or known.max() > 2100_12_31:
        return False
    known = np.unique(known)
    return not (known % 1).any() and _all_dates([f"{one:.0f}" for one in known], COMPACT)


def may_be_date(text: str) -> bool:
    """Whether the text is a date in any of the ways in which a column may be written."""
    every = {one for formats in FORMATS.values() for one in formats}
    ways = (one + time for one in sorted(every - {ISO}) for time in ("", " %H:%M", " %H:%M:%S"))
    # By its look most dates are known soon; all ways are for texts of another look than the others.
    return bool(formats_of([text])) or any(_all_dates([text], one) for one in (ISO, *ways))


def is_date(series: "pd.Series[Any]") -> bool:
    """Whether the column has a type of dates, as Parquet files and databases have."""
    return pd.api.types.is_datetime64_any_dtype(series.dtype) or (
        series.dtype == object and pd.api.types.infer_dtype(series) in ("date", "datetime")
    )


def measured(frame: pd.DataFrame, feature: Number) -> NDArray[np.float64]:
    """A numeric feature of every row, NaN where missing; what cannot be read is an error."""
    series = column(frame, feature.name)
    if not isinstance(feature, Date) or (is_number(series) and feature.format != COMPACT):
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
    if is_number(series) and written != COMPACT:
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if is_date(series):
        return _since(pd.to_datetime(series, errors="coerce", utc=True))
    codes, texts = codes_and_texts(series)
    return np.append(_parsed(texts, written or ISO), np.nan)[codes]


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
