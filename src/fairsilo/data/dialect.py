"""How a CSV file is written: what separates fields, and how its numbers look."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from fairsilo.data.columns import MISSING
from fairsilo.errors import FairSiloError

WHOLE = r"(?:0|[1-9]\d*)"
"""A number that begins with a further zero is a code."""
GROUPED = r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?"
COMMA = r"[+-]?\d+(?:,\d+)?"
DOTTED = r"[+-]?\d{1,3}(?:\.\d{3})*(?:,\d+)?"
ODD = (
    (GROUPED, "`thousands` ','"),
    (COMMA, "`decimal` ','"),
    (DOTTED, "`decimal` ',' `thousands` '.'"),
)
"""Numbers that are none as the file is read, and the options with which they are."""


@dataclass(frozen=True)
class Dialect:
    """What the options `sep`, `decimal` and `thousands` say; the defaults are CSV's."""

    sep: str = ","
    decimal: str = "."
    thousands: str = ""

    def __post_init__(self) -> None:
        if self.sep in ("TAB", "\\t"):
            object.__setattr__(self, "sep", "\t")
        if len(self.sep) != 1 or self.sep in '"\r\n':
            raise FairSiloError(f"`sep` {self.sep!r} is not one character, such as ;")
        if self.decimal not in (".", ","):
            raise FairSiloError(f"`decimal` {self.decimal!r} is neither . nor ,")
        if self.thousands not in ("", ",", ".", " ", "'", "_"):
            raise FairSiloError(
                f"`thousands` {self.thousands!r} is not one of , . ' _ and the space"
            )
        if self.decimal == self.thousands:
            raise FairSiloError("`decimal` and `thousands` are the same character: change one")

    def but(self, sep: str | None, decimal: str | None, thousands: str | None) -> Dialect:
        """The same, but for what is given."""
        told = {"sep": sep, "decimal": decimal, "thousands": thousands}
        return replace(self, **{name: value for name, value in told.items() if value is not None})

    @cached_property
    def plain(self) -> re.Pattern[str]:
        """Numbers that Arrow reads."""
        point = re.escape(self.decimal)
        digits = rf"(?:{WHOLE}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
        return re.compile(rf"\s*[+-]?(?:{digits}|inf|infinity)\s*", re.IGNORECASE)

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        point, mark = re.escape(self.decimal), re.escape(self.thousands)
        return re.compile(rf"\s*[+-]?[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:{point}\d*)?\s*")

    def number(self, text: str) -> float | None:
        """The number that a cell writes, with a percent sign or without; None: it is no number."""
        bare = text.strip().removesuffix("%")
        if self.thousands and self._grouped.fullmatch(bare):
            bare = bare.replace(self.thousands, "")
        if not self.plain.fullmatch(bare):
            return None
        return float(bare.replace(self.decimal, "."))


def remedy_of(texts: Iterable[str]) -> str:
    """The options with which all of these texts would be numbers; "" if there are none."""
    known = [text.strip().removesuffix("%") for text in texts if text not in MISSING]
    if not any("," in text for text in known):
        return ""
    found = (told for look, told in ODD if all(re.fullmatch(look, text) for text in known))
    return next(found, "")
