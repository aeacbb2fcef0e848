"""The own method, notion and model of the examples give the same model on every engine."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from typing import Any

import pytest

from fairsilo.fairness import NOTIONS
from fairsilo.method import METHODS
from fairsilo.model import MODELS
from fairsilo.predictor import Plain
from fairsilo.run import load, save
from tests.docs.pages import steps
from tests.network.silos import TownTransport, largest_gap, make_town, simulate, train

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def names_of(script: str) -> dict[str, Any]:
    """What the example defines; its `main` is not run."""
    return runpy.run_path(str(EXAMPLES / f"{script}.py"))


def on_every_engine(folder: Path, **settings: Any) -> list[Any]:
    """Runs over silos with their real handlers, client by client, and pooled."""
    town = make_town(folder / "town", silos=3, rows=600, **settings)
    over, _ = train(town, TownTransport(town), folder / "journal")
    apart, pooled = (simulate(town, folder, engine=one) for one in ("clientwise", "pooled"))
    assert largest_gap(town, over, apart) < 1e-6
    assert largest_gap(town, over, pooled) < 1e-6
    return [over, apart, pooled]


@pytest.mark.slow
@pytest.mark.parametrize("masks", [True, False], ids=["masks", "clear"])
def test_own_method(tmp_path: Path, masks: bool) -> None:
    half_gap = names_of("own_method")["HALF_GAP"]
    METHODS.add(half_gap.name, half_gap)
    runs = on_every_engine(tmp_path, method=half_gap.name, secure_aggregation=masks)
    free = on_every_engine(tmp_path / "free", method="fedavg", secure_aggregation=masks)
    for run, one in zip(runs, free, strict=True):
        assert run.metrics["converged"], run.metrics["reason"]
        assert run.metrics["notes"][:2] == runs[0].metrics["notes"][:2]
        assert "by group" in run.metrics["notes"][1]
        half = one.metrics["train"]["dgeo_pooled"] / 2
        assert run.metrics["train"]["dgeo_pooled"] == pytest.approx(half, abs=1e-6)


@pytest.mark.slow
def test_own_notion(tmp_path: Path) -> None:
    notion = names_of("own_notion")["PREDICTIVE_EQUALITY"]
    NOTIONS.add(notion.name, notion)
    for run in on_every_engine(tmp_path, notion=notion.name, epsilon=0.01):
        assert run.metrics["converged"], run.metrics["reason"]
        (constraint,) = run.metrics["constraints"]
        assert constraint["name"] == "g0 - g1 in 0"
        assert abs(constraint["train"]["loss"]) == pytest.approx(0.01, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "masks"), [(2, True), (3, False)])
def test_own_model(tmp_path: Path, classes: int, masks: bool) -> None:
    """No convex problem, so after a few rounds, before rounding can lead to another optimum."""
    MODELS.add("bilinear", names_of("own_model")["bilinear"])
    runs = on_every_engine(
        tmp_path,
        model="bilinear",
        solver="lbfgs",
        rounds=6,
        secure_aggregation=masks,
        table={"classes": classes},
    )
    for k, run in enumerate(runs):
        save(run, tmp_path / f"run-{k}")
        (model,) = load(tmp_path / f"run-{k}").predictors
        assert isinstance(model, Plain)
        assert model.model.name == "bilinear"
        assert model.theta.tolist() == run.trained.predictors[0].theta.tolist()


@pytest.mark.parametrize("kind", ["method", "notion", "model"])
def test_the_page_shows_the_example(kind: str) -> None:
    """Functions, classes and specs above "Use it" are the example's, word for word."""
    example = (EXAMPLES / f"own_{kind}.py").read_text()
    page = (ROOT / "docs" / "howto" / f"add-a-{kind}.md").read_text()
    parts = [step.source for step in steps(page.partition("## Use it")[0]) if step.kind == "python"]
    shown = [
        ast.get_source_segment(part, node) or ""
        for part in parts
        for node in ast.parse(part).body
        if not isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert shown
    for segment in shown:
        assert segment in example, segment
