"""Names that are probably the same: groups, classes or clients that differ in blanks or case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd

from fairsilo.data.columns import codes_and_texts, is_number
from fairsilo.errors import FairSiloError

ALIKE = "differ only in blanks or case"
SHOWN = 3
"""So many sets of such names are shown."""


def alike(frame: pd.DataFrame, names: Iterable[str | None]) -> Iterator[str]:
    """What to warn of in these columns, where the table has them."""
    for name in dict.fromkeys(names):
        if name not in frame.columns or is_number(frame[name]):
            continue
        try:
            texts = codes_and_texts(frame[name])[1]
        except FairSiloError:
            continue  # What cannot be read is an error elsewhere.
        yield from alike_in(f"column {name!r}", texts)


def alike_in(what: str, values: Iterable[str]) -> Iterator[str]:
    """One sentence, if some of the values differ only in blanks or case."""
    met: dict[str, list[str]] = {}
    for value in sorted(set(values)):
        met.setdefault(" ".join(value.split()).casefold(), []).append(value)
    found = [same for same in met.values() if len(same) > 1]
    if found:
        each = [f"{', '.join(map(repr, same[:-1]))} and {same[-1]!r}" for same in found[:SHOWN]]
        more = f"; and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
        yield (
            f"{what}: the values {'; '.join(each)}{more} {ALIKE}: if they are the same, make them "
            "alike in the table"
        )
