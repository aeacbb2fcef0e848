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
GROUPED = r"[+-]?(?:0|[1-9]\d{{0,2}}(?:{mark}\d{{3}})+|[1-9]\d*)(?:{point}\d+)?"
"""Every mark is before three digits; some numbers may have none."""
COMMA = r"[+-]?\d+(?:,\d+)?"
DOTTED = r"[+-]?\d{1,3}(?:\.\d{3})*(?:,\d+)?"
SPACES = " \u00a0\u2009\u202f"
"""The space, and those that are narrower or keep a number on its line."""
ODD = (
    (GROUPED.format(mark=",", point=r"\."), "`thousands` ','"),
    (COMMA, "`decimal` ','"),
    (DOTTED, "`decimal` ',' `thousands` '.'"),
    (GROUPED.format(mark=f"[{SPACES}]", point=r"\."), "`thousands` ' '"),
    (GROUPED.format(mark=f"[{SPACES}]", point=","), "`decimal` ',' `thousands` ' '"),
    (GROUPED.format(mark="'", point=r"\."), '`thousands` "\'"'),
)
"""Numbers that are none as the file is read, and the options with which they are."""


MONEY = "$€£¥"
SIGNED = re.compile(rf"^([+-]?)[{MONEY}]\s*|\s*[%{MONEY}]$")
"""A sign of money before a number, or it or a percent sign behind."""
MARKED = re.compile(rf"[,'{SPACES}]|\..*\.")
"""What no number has that Arrow reads."""


def unsigned(text: str) -> str:
    """The text without a percent sign or a sign of money."""
    return SIGNED.sub(r"\1", text.strip(), count=1)


def currencies(texts: Iterable[str]) -> int:
    """How many signs of money are in these texts: with several they are not one quantity."""
    return len(set(MONEY).intersection("".join(texts)))


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
    def _mark(self) -> str:
        return f"[{SPACES}]" if self.thousands == " " else re.escape(self.thousands)

    @cached_property
    def _grouped(self) -> re.Pattern[str]:
        point = re.escape(self.decimal)
        return re.compile(rf"\s*[+-]?[1-9]\d{{0,2}}(?:{self._mark}\d{{3}})+(?:{point}\d*)?\s*")

    def number(self, text: str) -> float | None:
        """The number that a cell writes, with such a sign or without; None: it is no number."""
        bare = unsigned(text)
        if self.thousands and self._grouped.fullmatch(bare):
            bare = re.sub(self._mark, "", bare)
        if not self.plain.fullmatch(bare):
            return None
        return float(bare.replace(self.decimal, "."))


AS_TEXT = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?")


def numbers_as_text(texts: Iterable[str]) -> bool:
    """Whether all of these texts look like numbers, some with a point, % or a sign of money.

    A file is read so that such cells are numbers, unless its decimals are commas; a table in memory
    is taken as it is.
    """
    known = [text.strip() for text in texts if text not in MISSING]
    return any("." in text or text != unsigned(text) for text in known) and all(
        AS_TEXT.fullmatch(unsigned(text)) for text in known
    )


def remedy_of(texts: Iterable[str]) -> str:
    """The options with which all of these texts would be numbers; "" if there are none."""
    known = [unsigned(text) for text in texts if text not in MISSING]
    if not any(map(MARKED.search, known)):
        return ""
    found = (told for look, told in ODD if all(re.fullmatch(look, text) for text in known))
    return next(found, "")


def may_need_remedy(text: str) -> bool:
    """Whether `remedy_of` may speak of a column with this text."""
    return any(re.fullmatch(look, unsigned(text)) for look, _ in ODD)
