"""Make the pictures of README and the docs: a report and the live page, light and dark, and the
architecture.

fairsilo train --data adult --epsilon 0.1 --out runs/adult
python docs/tools/screens.py runs/adult/report.html
python docs/tools/screens.py live

Needs a Chromium, as the report's tests do. Without a report or `live` only the architecture is
drawn. The live page is that of the tests: four silos, of which one dies within the rounds.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.report.browser import Browser, find_chromium
from tests.report.test_live import run_in_thread

from fairsilo.cli.flags import as_typed
from fairsilo.progress import PROGRESS
from fairsilo.report.live import watching

OUT = Path(__file__).parents[1] / "img"
WIDTH, HEIGHT, SCALE = 1100, 1490, 0.75
"""Of the report's part that is shown."""
LIVE_HEIGHT = 1155
"""Of the live page's."""
DIES = 24
"""The exchange in which its silo dies."""
LOOKS = ("light", "dark")
WEIGHTS = ("bold", "normal")
INK, LINE, FILL, MARK = "#1f2937", "#9ca3af", "#ffffff", "#1d5b9e"


def report(page: Path) -> list[Path]:
    """The top of a report as two pictures."""
    made = []
    with chromium() as browser:
        for look in LOOKS:
            browser.open(page.resolve(), width=WIDTH, dark=look == "dark")
            made.append(shot(browser, f"report-{look}.png", HEIGHT))
    return made


def live() -> list[Path]:
    """The live page while a silo that died is waited for, as two pictures."""
    made = []
    with TemporaryDirectory() as folder, chromium() as browser:
        post, work, _ = run_in_thread(Path(folder), DIES, rounds=30)
        work.start()
        with watching(Path(folder) / PROGRESS, words=as_typed) as server:
            for look in LOOKS:
                browser.visit(server.address, width=WIDTH, dark=look == "dark")
                browser.wait("document.querySelector('h1').textContent === 'Waiting for silo1'")
                made.append(shot(browser, f"live-{look}.png", LIVE_HEIGHT))
            post.absent = ()
            work.join()
    return made


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own."""
    program = find_chromium()
    if program is None:
        raise SystemExit("there is no Chromium on the path: install one to take pictures")
    with TemporaryDirectory() as profile, Browser(program, Path(profile)) as browser:
        yield browser


def shot(browser: Browser, name: str, height: int) -> Path:
    """The top of the page that is open, as a picture."""
    clip = {"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": SCALE}
    found = browser.send(
        "Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True
    )
    path = OUT / name
    path.write_bytes(base64.b64decode(found["data"]))
    return path


def box(x: int, y: int, width: int, height: int, *lines: str, mark: bool = False) -> str:
    """A box with lines of text, the first of them bold."""
    shape = (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{FILL}" '
        f'stroke="{MARK if mark else LINE}" stroke-width="{2 if mark else 1.2}"/>'
    )
    top = y + height / 2 - 9 * (len(lines) - 1) + 5
    texts = (
        f'<text x="{x + width / 2:g}" y="{top + 18 * k:g}" text-anchor="middle" '
        f'font-weight="{WEIGHTS[bool(k)]}">{escape(line)}</text>'
        for k, line in enumerate(lines)
    )
    return shape + "".join(texts)


def arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    """A line with a head."""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{MARK}" stroke-width="1.6" '
        'marker-end="url(#head)"/>'
    )


def architecture() -> str:
    """Silos answer questions with sums, an engine adds them, a method steps, a run is written."""
    silos = [
        box(20, 40 + 100 * k, 190, 76, f"silo {k + 1}", "its rows stay here", "weights v, losses")
        for k in range(3)
    ]
    lines = [arrow(210, 68 + 100 * k, 318, 150 + 30 * k) for k in range(3)]
    lines += [arrow(318, 166 + 30 * k, 210, 92 + 100 * k) for k in range(3)]
    parts = [
        box(320, 120, 180, 120, "engine", "adds the answers", "in one process or", "behind masks",
            mark=True),
        box(580, 120, 180, 120, "method and solver", "ask for sums of loss,", "gradient, Hessian;",
            "step to the optimum", mark=True),
        box(840, 60, 180, 90, "run folder", "model, figures,", "report, certificate, card"),
        box(840, 210, 180, 90, "use it", "predict, audit, diff,", "ONNX, scikit-learn"),
    ]  # fmt: skip
    words = [
        (264, 30, "sums leave, no row"), (540, 108, "question and sum"),
        (540, 262, "|difference of groups| \u2264 \u03b5"),
    ]  # fmt: skip
    lines += [arrow(578, 165, 502, 165), arrow(500, 195, 578, 195), arrow(760, 160, 838, 115)]
    lines += [arrow(930, 150, 930, 208)]
    told = "".join(
        f'<text x="{x}" y="{y}" text-anchor="middle" fill="{MARK}">{escape(text)}</text>'
        for x, y, text in words
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1040 350" width="1040" height="350" '
        f'font-family="sans-serif" font-size="13" fill="{INK}" role="img">'
        "<title>Silos answer questions with sums; an engine adds them; a method and its solver "
        "step until the groups differ by no more than epsilon; a run folder is written</title>"
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'<path d="M0 0L8 4L0 8Z" fill="{MARK}"/></marker></defs>'
        '<rect width="1040" height="350" rx="12" fill="#f6f7f9"/>'
        f"{''.join(lines)}{''.join(silos)}{''.join(parts)}{told}</svg>\n"
    )


def main(pages: list[str]) -> None:
    """Write the pictures and say where."""
    drawn = OUT / "architecture.svg"
    drawn.write_text(architecture())
    made = [one for page in pages for one in (live() if page == "live" else report(Path(page)))]
    for path in (drawn, *made):
        print(f"{path.relative_to(OUT.parents[1])}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
