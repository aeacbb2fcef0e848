"""The page in a real browser: charts are there, nothing fails, nothing is requested."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import pytest

from fairsilo.report import audit_page, run_page
from fairsilo.report.blocks import table, table_page
from fairsilo.report.charts import Line, Point, lines, scatter
from tests.report.browser import Browser
from tests.report.samples import HOSTILE, Sample, sample, with_terms
from tests.report.test_audit_page import audited

SAMPLES = {
    "plain": sample(),
    "hostile": with_terms(
        sample(groups=HOSTILE, classes=("no", HOSTILE[0])), (*HOSTILE, "\u2028" + 40 * "long ")
    ),
    "many": sample(clients=1000, rounds=20_000, groups=("a", "b", "c")),
    "local": sample(method="lco", clients=50, rounds=5),
    "free": sample(method="fedavg"),
    "empty": sample(rows=0, clients=1, rounds=1),
}


def _write(folder: Path, run: Sample) -> Path:
    path = folder / "report.html"
    path.write_text(run_page(*run.files()), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("dark", [False, True])
def test_page_works(show: Browser, tmp_path: Path, name: str, dark: bool) -> None:
    path = _write(tmp_path, SAMPLES[name])
    show.open(path, dark=dark)
    assert show.eval("document.documentElement.dataset.ready") == "true"
    assert show.requests == [path.as_uri()] or set(show.requests) <= {path.as_uri(), "data:,"}
    assert show.eval("document.querySelectorAll('figure.chart .plot > svg').length") >= 6
    visible = show.eval("document.body.innerText")
    assert not re.search(r"\bNaN\b|\bnan\b|undefined\b(?!,)|\[object|\bNone\b|Infinity", visible)


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [360, 800, 1600])
def test_nothing_is_wider_than_the_window(
    show: Browser, tmp_path: Path, name: str, width: int
) -> None:
    show.open(_write(tmp_path, SAMPLES[name]), width=width)
    assert show.eval("document.documentElement.scrollWidth") <= width


def test_marks_are_where_the_numbers_say(show: Browser, tmp_path: Path) -> None:
    show.open(_write(tmp_path, SAMPLES["plain"]))
    # Two rates, one rate gap, one loss gap, two rates in each of two classes, five clients twice.
    assert show.eval("document.querySelectorAll('.dots .mark').length") == 2 + 1 + 1 + 4 + 10
    # Loss, D, multiplier, residual, and bytes up and down.
    assert show.eval("document.querySelectorAll('.plot path.line').length") == 6
    # The loss gap is -0.05 and its band is +-0.1: the marker lies a quarter into the band.
    at = show.eval(
        """(() => {
          const chart = document.querySelector('.dots .outer').closest('figure');
          const band = chart.querySelector('.band').getBoundingClientRect();
          const dot = chart.querySelector('.mark path').getBoundingClientRect();
          return (dot.left + dot.width / 2 - band.left) / band.width;
        })()"""
    )
    assert at == pytest.approx(0.25, abs=0.01)


def test_many_clients_are_a_histogram_that_counts_them_all(show: Browser, tmp_path: Path) -> None:
    show.open(_write(tmp_path, SAMPLES["many"]))
    counted = show.eval(
        """[...document.querySelectorAll('.histogram')].map(f => [...f.querySelectorAll('.mark')]
          .reduce((sum, m) => sum + parseInt(m.getAttribute('aria-label').replace(',', '')), 0))"""
    )
    assert counted == [1000, 1000]


def test_tooltips_by_mouse_and_by_keyboard(show: Browser, tmp_path: Path) -> None:
    show.open(_write(tmp_path, SAMPLES["plain"]))
    tip = "document.querySelector('.tip').hidden ? null : document.querySelector('.tip').innerText"
    assert show.eval(tip) is None
    show.point(".dots .mark path")
    assert show.eval(tip).startswith("Female: 80.0%")
    assert "320 of 400 test rows" in show.eval(tip)
    show.eval("document.querySelector('.dots .mark').focus()")
    show.key("ArrowRight")
    assert show.eval(tip).startswith("Male: 80.0%")
    show.point(".lines .plot > svg", at=0.001)
    assert show.eval(tip).split("\n") == ["round 1", "Average loss: 0.7"]
    show.eval("document.querySelector('.lines .plot > svg').focus()")
    show.key("ArrowRight")
    assert show.eval(tip).split("\n") == ["round 2", "Average loss: 0.5"]


def test_tab_reaches_a_chart(show: Browser, tmp_path: Path) -> None:
    show.open(_write(tmp_path, SAMPLES["plain"]))
    reached = set()
    for _ in range(25):
        show.key("Tab")
        reached.add(show.eval("(document.activeElement.closest('.plot') || {}).className || ''"))
    assert "plot flush" in reached


def test_legend_hides_a_series(show: Browser, tmp_path: Path) -> None:
    show.open(_write(tmp_path, SAMPLES["many"]))
    show.eval("document.querySelector('.lines .key').click()")
    pressed = show.eval("document.querySelector('.lines .key').getAttribute('aria-pressed')")
    hidden = show.eval(
        "getComputedStyle(document.querySelector('.lines .key').closest('figure')"
        ".querySelector('.plot path.line')).display"
    )
    assert (pressed, hidden) == ("false", "none")


def test_a_heading_sorts_its_table(show: Browser, tmp_path: Path) -> None:
    page = table_page("T", [("S", [table(["name", "x"], [["b", 2.0], ["a", None], ["c", 10.0]])])])
    (tmp_path / "t.html").write_text(page, encoding="utf-8")
    show.open(tmp_path / "t.html")
    order = "[...document.querySelectorAll('tbody tr')].map(r => r.cells[0].textContent).join('')"
    show.eval("document.querySelectorAll('thead button')[1].click()")
    assert show.eval(order) == "bca"
    show.eval("document.querySelectorAll('thead button')[0].click()")
    assert show.eval(order) == "abc"


def test_hostile_names_are_text(show: Browser, tmp_path: Path) -> None:
    show.open(_write(tmp_path, SAMPLES["hostile"]))
    assert show.eval("typeof window.hacked") == "undefined"
    assert show.eval("document.querySelectorAll('img, iframe, object, embed').length") == 0
    assert show.eval("document.querySelectorAll('script:not([type])').length") == 1
    assert HOSTILE[1] in show.eval("document.body.innerText")


def test_policy_refuses_what_slips_in(browser: Browser, tmp_path: Path) -> None:
    """Even if markup got past the escaping, the browser would refuse to run it."""
    path = tmp_path / "report.html"
    slipped = "<script>window.hacked=1</script><img src='https://example.org/x.png'></main>"
    path.write_text(run_page(*sample().files()).replace("</main>", slipped), encoding="utf-8")
    browser.open(path)
    assert browser.eval("typeof window.hacked") == "undefined"
    assert any("Content Security Policy" in text for text in browser.errors)
    assert browser.eval("document.querySelector('img').naturalWidth") == 0
    browser.errors.clear()


def test_dark_is_dark_and_print_is_light(show: Browser, tmp_path: Path) -> None:
    path = _write(tmp_path, SAMPLES["plain"])
    paper = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    show.open(path)
    assert min(show.eval(paper)) > 200
    show.open(path, dark=True)
    assert max(show.eval(paper)) < 60
    show.open(path, dark=True, media="print")
    assert show.eval(paper) == [255, 255, 255]
    assert show.eval("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_it_prints(show: Browser, tmp_path: Path) -> None:
    show.open(_write(tmp_path, SAMPLES["plain"]), media="print")
    pdf = base64.b64decode(show.send("Page.printToPDF")["data"])
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 3 <= pages <= 14
    assert show.eval("document.querySelector('details').open")


def test_building_blocks(show: Browser, tmp_path: Path) -> None:
    series = {f"method {k}": [Point(0.7 + 0.01 * k, 0.9, f"epsilon {k}")] * 3 for k in range(9)}
    page = table_page(
        "Comparison",
        [
            ("Figure 1", [scatter("Accuracy and fairness", series, x_title="accuracy")]),
            (
                "Figure 2",
                [lines("Sweep", [Line("x", [1e-4, 1e-2], [0.5, 0.7])], log_x=True, points=True)],
            ),
        ],
    )
    (tmp_path / "t.html").write_text(page, encoding="utf-8")
    show.open(tmp_path / "t.html", width=360)
    assert show.eval("document.querySelectorAll('.scatter .mark').length") == 27
    assert show.eval("document.querySelectorAll('.lines .mark').length") == 2
    assert show.eval("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [360, 1200])
def test_an_audit(show: Browser, tmp_path: Path, width: int) -> None:
    (tmp_path / "audit.html").write_text(audit_page(audited(HOSTILE)), encoding="utf-8")
    show.open(tmp_path / "audit.html", width=width)
    assert show.eval("document.documentElement.scrollWidth") <= width
    # Three pairs by two estimators, as rates and as losses; three groups in two classes.
    assert show.eval("document.querySelectorAll('.dots .mark').length") == 6 + 6 + 6
    assert show.eval("typeof window.hacked") == "undefined"
    assert show.eval("document.querySelector('#certificate h2').innerText") == "Certificate"
