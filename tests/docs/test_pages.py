"""All code on the pages runs, and prints what the pages show."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path

import pytest

from tests.docs.pages import matches, namespace, run, steps

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    # `operating.md` is followed with real processes, by tests/network/test_day_one.py.
    p
    for p in DOCS.rglob("*.md")
    if any(steps(p.read_text())) and p.name != "operating.md"
)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy"),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    names = namespace()
    with warnings.catch_warnings():
        for step in steps(page.read_text()):
            printed = run(step, names)
            if step.shown is not None:
                assert matches(step.shown, printed), f"{step.source}\nprints\n{printed}"


def test_a_page_that_shows_something_else_is_found() -> None:
    shown = "```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n"
    (step,) = steps(shown)
    assert not matches(step.shown or "", run(step, {}))
    (step,) = steps(shown.replace("3", "2"))
    assert matches(step.shown or "", run(step, {}))
    (step,) = steps("```console\n$ fairsilo version\n...\n```")
    assert run(step, {}).strip()


@pytest.mark.parametrize(
    "script", [p for p in EXAMPLES if p.stem != "quickstart"], ids=lambda path: path.stem
)
def test_example(
    script: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """All examples but `quickstart`, which is tested with the estimator."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()
