"""Numbers as text. An undefined value is an en dash with the reason, never NaN."""

import math
import re

from fairsilo.evaluate.intervals import Interval
from fairsilo.report.html import Html, el

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"
UNDEFINED = "not defined for this run"


Number = float | int | None


def defined(value: Number) -> bool:
    """Whether there is a finite number to show."""
    return value is not None and math.isfinite(value)


def missing(why: str = UNDEFINED) -> Html:
    """The en dash that stands for an undefined value, with the reason as its title."""
    return el("span", DASH, class_="none", title=why, aria_label=f"undefined: {why}", role="img")


def number(value: Number, digits: int = 3, *, signed: bool = False, why: str = UNDEFINED) -> str:
    """0.843; small values keep their leading figures: 6.8e-08 is 6.8 x 10^-8."""
    if value is None or not math.isfinite(value):
        return missing(why)
    if value and abs(value) < 0.5 * 10**-digits:
        return _sign(value, signed) + scientific(abs(value))
    return _sign(value, signed) + f"{abs(value):,.{digits}f}"


def percent(value: Number, *, signed: bool = False, why: str = UNDEFINED) -> str:
    """55.5%."""
    if value is None or not math.isfinite(value):
        return missing(why)
    shown = f"{abs(100 * value):.1f}%"
    # A value that rounds to zero has no sign.
    return shown if not float(shown[:-1]) else _sign(value, signed) + shown


def points(value: float) -> str:
    """A difference of rates in percentage points: -2.7, with its sign."""
    return percent(value, signed=True).removesuffix("%")


def plain(value: float) -> str:
    """A number in its shortest form: 0.1, 0.0001."""
    return scientific(value) if 0 < value < 1e-5 else f"{value:.6g}"


def typeset(text: str) -> str:
    """Replace numbers such as 6.8e-08 in a text by the form of `scientific`."""

    def better(found: re.Match[str]) -> str:
        value = float(found[0])
        return scientific(value) if value else "0"

    return re.sub(r"\b\d+(?:\.\d+)?e[+-]\d+\b", better, text)


def count(value: Number, *, why: str = UNDEFINED) -> str:
    """40,000."""
    return missing(why) if value is None or not math.isfinite(value) else f"{value:,.0f}"


def size(value: Number, *, why: str = UNDEFINED) -> str:
    """20.8 MB (decimal)."""
    if value is None or not math.isfinite(value):
        return missing(why)
    amount, units = float(value), ["bytes", "kB", "MB", "GB", "TB", "PB"]
    while abs(amount) >= 999.5 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:,.0f} bytes" if units[0] == "bytes" else f"{amount:.3g} {units[0]}"


def duration(value: Number, *, why: str = UNDEFINED) -> str:
    """2.5 s, 3 min 20 s."""
    if value is None or not math.isfinite(value):
        return missing(why)
    if value < 60:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def scientific(value: float) -> str:
    """6.8 x 10^-8, typeset."""
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}\N{MULTIPLICATION SIGN}10{superscript(int(exponent))}"


def superscript(value: int) -> str:
    """A whole number as raised characters."""
    return str(value).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def interval(
    value: Interval | None, *, rate: bool = False, signed: bool = False, why: str = UNDEFINED
) -> str:
    """48.4% to 62.4%."""
    if value is None:
        return missing(why)
    show = percent if rate else number
    return f"{show(value.low, signed=signed)} to {show(value.high, signed=signed)}"


def rounded(text: str) -> str:
    """A text whose long decimals have four figures: "[0.2427, 12)"."""

    def shorter(found: re.Match[str]) -> str:
        value = float(found[0])
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"

    return re.sub(r"(?<![\w-])-(?=\d)", MINUS, re.sub(r"-?\d+\.\d{2,}", shorter, text))


def plural(value: int, one: str, many: str | None = None) -> str:
    """1 client, 50 clients."""
    return f"{value:,} {one if value == 1 else many or one + 's'}"


def listing(names: list[str], last: str = "and", most: int = 6) -> str:
    """a, b and c; long lists are cut with a count."""
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def shorten(text: str, most: int = 34) -> str:
    """Cut long names where a chart has no room; the full name stays in the tooltip."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _sign(value: float, signed: bool) -> str:
    return MINUS if value < 0 else "+" if signed and value > 0 else ""
