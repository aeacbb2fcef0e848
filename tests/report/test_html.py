"""Text is always escaped; numbers are never NaN."""

import json
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.evaluate.intervals import Interval
from fairsilo.report.html import Html, coded, data_block, el, escape, join
from fairsilo.report.text import (
    count,
    duration,
    interval,
    listing,
    number,
    percent,
    plain,
    plural,
    points,
    shorten,
    size,
    typeset,
)


def test_backticks_are_code() -> None:
    assert coded("give `drop` <a>") == "give <code>drop</code> &lt;a&gt;"
    assert coded("a`b") == "a`b"


class Seen(HTMLParser):
    """What a parser finds: tags, attributes, text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"])))
def test_any_text_survives_as_text_and_as_attribute(text: str) -> None:
    seen = Seen()
    seen.feed(el("p", text, title=text))
    seen.close()
    assert seen.tags == ["p"]
    assert seen.attributes == [("title", text)]
    assert seen.text == text


@given(st.dictionaries(st.text(), st.text()))
def test_data_blocks_hold_any_text_and_nothing_ends_them(value: dict[str, str]) -> None:
    block = data_block(value)
    inside = block.removeprefix('<script type="application/json">').removesuffix("</script>")
    assert not set("<>&") & set(inside)
    assert json.loads(inside) == value


def test_only_html_is_markup() -> None:
    assert el("p", Html("<b>x</b>"), "<b>") == "<p><b>x</b>&lt;b&gt;</p>"
    assert join("&", None, 1) == "&amp;1"
    assert el("i", class_="a", hidden=True, title=None, data_x=0) == (
        '<i class="a" hidden data-x="0"></i>'
    )
    assert el("meta", charset="utf-8") == '<meta charset="utf-8">'
    assert el("i", title=Html('"<b>')) == '<i title="&quot;&lt;b&gt;"></i>'


def test_characters_no_document_may_hold_are_marked() -> None:
    assert escape("a\x00b\ud800") == "a\ufffdb\ufffd"


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("write", [number, percent, count, size, duration])
def test_undefined_is_a_dash_that_says_why(write: object, value: float | None) -> None:
    assert callable(write)
    shown = write(value, why="no <row>")
    assert isinstance(shown, Html)
    assert ">\u2013</span>" in shown
    assert 'title="no &lt;row&gt;"' in shown


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(0.8432), "0.843"),
        (number(-0.5, signed=True), "\u22120.500"),
        (number(0.5, signed=True), "+0.500"),
        (number(0.0, signed=True), "0.000"),
        (number(6.8e-8), "6.8\u00d710\u207b\u2078"),
        (number(12345.678, 1), "12,345.7"),
        (percent(0.555), "55.5%"),
        (percent(-0.00001, signed=True), "0.0%"),
        (points(-0.0271), "\u22122.7"),
        (count(40000), "40,000"),
        (size(0), "0 bytes"),
        (size(999), "999 bytes"),
        (size(20_797_200), "20.8 MB"),
        (size(999_999), "1 MB"),
        (duration(2.52), "2.5 s"),
        (duration(200), "3 min 20 s"),
        (duration(7260), "2 h 1 min"),
        (interval(Interval(0.48, 0.62), rate=True), "48.0% to 62.0%"),
        (plain(0.1), "0.1"),
        (plain(0.0001), "0.0001"),
        (plain(0.0), "0"),
        (plural(1, "client"), "1 client"),
        (plural(1000, "client"), "1,000 clients"),
        (listing(["a", "b", "c"]), "a, b and c"),
        (listing(list("abcdefgh"), most=4), "a, b, c and 5 more"),
        (shorten("a" * 50, 10), "a" * 9 + "\u2026"),
        (
            typeset("residual 6.8e-08, violation 0.0e+00, model-1e"),
            "residual 6.8\u00d710\u207b\u2078, violation 0, model-1e",
        ),
    ],
)
def test_numbers_as_text(shown: str, expected: str) -> None:
    assert shown == expected
