"""The style sheet has enough contrast in light, dark and print: WCAG asks 4.5 for text, 3 else."""

import re

import pytest

from fairsilo.report.blocks import asset

BLOCKS = dict(
    zip(
        ("light", "dark", "print"),
        re.findall(r":root \{(.*?)\}", asset("report.css"), re.DOTALL),
        strict=True,
    )
)
TEXT = [("ink", "paper"), ("ink", "card"), ("soft", "paper"), ("soft", "card"), ("faint", "paper")]
TEXT += [("faint", "card"), *((name, f"{name}-bg") for name in ("good", "unsure", "bad", "plain"))]
TEXT += [("ink", "unsure-bg"), ("ink", "band")]
MARKS = [(f"c{k}", "card") for k in range(8)]


def _luminance(color: str) -> float:
    color = color if len(color) == 6 else "".join(c + c for c in color)
    parts = [int(color[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def _contrast(theme: str, front: str, back: str) -> float:
    colors = dict(re.findall(r"--([\w-]+): #([0-9a-f]+);", BLOCKS[theme]))
    low, high = sorted(_luminance(colors[name]) for name in (front, back))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", BLOCKS)
@pytest.mark.parametrize(("front", "back"), TEXT)
def test_text_can_be_read(theme: str, front: str, back: str) -> None:
    assert _contrast(theme, front, back) >= 4.5


@pytest.mark.parametrize("theme", BLOCKS)
@pytest.mark.parametrize(("front", "back"), MARKS)
def test_marks_can_be_seen(theme: str, front: str, back: str) -> None:
    assert _contrast(theme, front, back) >= 3


@pytest.mark.parametrize("name", ["report.css", "report.js"])
def test_assets_name_no_address(name: str) -> None:
    addresses = re.findall(r"https?://[^\s\"']+|url\(|@import|fetch\(|XMLHttp", asset(name))
    assert set(addresses) <= {"http://www.w3.org/2000/svg"}
