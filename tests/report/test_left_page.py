"""The page of what left a silo, as text and in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fairsilo.report.left import left_page
from tests.report.browser import Browser
from tests.report.samples import HOSTILE


def line(run: str, number: int, **values: Any) -> dict[str, Any]:
    return {
        "time": f"2026-01-31T12:{number:02d}:00+00:00", "silo": "bank", "run": run,
        "kind": "round", "step": "masked", "number": number, "numbers": 5460, "bytes": 43_800,
        "digest": "0123456789abcdef" * 4, "dp_cost": 0.0, "refused": "", **values,
    }  # fmt: skip


LINES = [
    line("7", 0, kind="advertise", step="advertise", numbers=0, bytes=4_200),
    line("7", 1, kind="counts"),
    *(line("7", k) for k in range(2, 9)),
    {
        "time": "2026-01-31T12:09:00+00:00",
        "run": "7",
        "kind": "remark",
        "remark": "units, it seems",
    },
    line("8", 9, dp_cost=0.0123, step="", kind="noisy-counts"),
    line("8", 10, refused="its owner said no to this run", digest="", numbers=0, bytes=120),
]


def test_the_page_has_a_line_for_everything() -> None:
    page = left_page("bank", LINES)
    text = re.sub(r"<(style|script).*?</\1>", "", page, flags=re.DOTALL)
    assert "11 replies in 2 runs" in text
    assert "1 of them refused" in text
    assert "its owner said no to this run" in text
    assert "Units, it seems." in text
    assert text.count("round (masked)") == 8
    assert "0.0123" in text


def test_what_was_asked_is_text() -> None:
    page = left_page(HOSTILE[0], [line(HOSTILE[0], 1, kind=HOSTILE[0], refused=HOSTILE[1])])
    assert "<img" not in page
    assert "<svg onload" not in page
    assert "0 replies in 0 runs" in left_page("bank", [])


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_works_in_a_browser(show: Browser, tmp_path: Path, dark: bool) -> None:
    path = tmp_path / "left.html"
    path.write_text(left_page("bank", LINES))
    for width in (360, 1200):
        show.open(path, dark=dark, width=width)
        assert show.eval("document.documentElement.dataset.ready") == "true"
        assert show.eval("document.documentElement.scrollWidth") <= width
        assert show.eval("document.querySelectorAll('tbody tr').length") == 13
    assert set(show.requests) <= {path.as_uri(), "data:,"}
