"""Many groups and classes, from options to metrics and the run folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fairsilo
from fairsilo.auditor import AuditOptions
from fairsilo.auditor import execute as audit
from fairsilo.data import make_table
from fairsilo.data.groups import POOLED
from fairsilo.errors import FairSiloError
from fairsilo.report import card
from fairsilo.run import Options, Run, execute, load, save
from fairsilo.run.constraints import limits_of
from fairsilo.run.predict import score_table
from fairsilo.run.prepare import prepare
from fairsilo.solver import Status


def frame(rows: int = 900) -> pd.DataFrame:
    """Three classes, three groups (one of them small) and a second column to cross them with."""
    rng = np.random.default_rng(0)
    table = make_table(rows, silos=3, bias=1.0, seed=2)
    table["group"] = rng.choice(["g0", "g1", "g2"], len(table), p=[0.55, 0.33, 0.12])
    table["sex"] = rng.choice(["f", "m"], len(table))
    table["label"] = np.where(rng.random(len(table)) < 0.3, "2", table["label"].astype(str))
    return table


@pytest.fixture(scope="module")
def csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "loans.csv"
    frame().to_csv(path, index=False)
    return path


def options(csv: Path, **more: object) -> Options:
    given = {"label": "label", "group": "group", "protected_class": "1", "client": "client"}
    return Options(data=str(csv), **{**given, **more})  # type: ignore[arg-type]


def run(csv: Path, **more: object) -> Run:
    return execute(options(csv, **more), baseline=False)


@pytest.mark.slow
def test_every_pair_of_every_class_has_its_own_limit(csv: Path, tmp_path: Path) -> None:
    limits = (("g0:g1", 0.01), ("g2:g0", 0.2))
    done = run(csv, protected_class="all", epsilon=0.1, epsilons=limits)
    metrics = done.metrics
    assert done.trained.outcome.status is Status.CONVERGED
    assert len(metrics["constraints"]) == 9
    for one in metrics["constraints"]:
        want = 0.01 if "g0 - g1" in one["name"] else 0.2 if "g0 - g2" in one["name"] else 0.1
        assert one["epsilon"] == want
        assert abs(one["train"]["loss"]) <= want + 1e-6
    largest = max(abs(one["test"]["rate"]) for one in metrics["constraints"])
    assert metrics["test"]["deo"] == pytest.approx(largest)
    assert metrics["epsilon"] == 0.2
    assert metrics["certificate"]["limit"] == 0.01
    save(done, tmp_path / "run")
    report = (tmp_path / "run" / "report.html").read_text()
    assert "g0 \N{MINUS SIGN} g1 (label=2)" in report
    described = json.loads((tmp_path / "run" / "model.json").read_text())
    assert described["compared"][0] == {
        "a": ["g0"], "b": ["g1"], "classes": ["0"], "claim": None, "epsilon": 0.01,
    }  # fmt: skip
    scores, _ = score_table(tmp_path / "run", csv)
    assert set(scores["predicted"]) <= {"0", "1", "2"}
    clf = fairsilo.load(tmp_path / "run")
    assert clf.protected_class == [0, 1, 2]
    assert clf.epsilon == {("g0", "g1"): 0.01, ("g0", "g2"): 0.2, ("g1", "g2"): 0.1}
    found = audit(AuditOptions(str(csv), model=tmp_path / "run"))
    assert found["certificate"]["limit"] == 0.01
    deo = [pair["rate_gap"]["pooled"]["value"] for pair in found["pairs"]]
    assert deo == pytest.approx([one["test"]["rate"] for one in metrics["constraints"]])


@pytest.mark.slow
def test_each_group_against_the_rest(csv: Path, tmp_path: Path) -> None:
    done = run(csv, against="rest", epsilon=0.03)
    rows = prepare(done.options).federation
    losses = done.trained.predictors[0].losses(rows.x, rows.y, rows.s)
    own = rows.y == 1
    for g, one in enumerate(done.metrics["constraints"]):
        assert one["name"] == f"g{g} - the others in 1"
        inside, outside = own & (rows.s == g), own & (rows.s != g)
        want = losses[inside].mean() - losses[outside].mean()
        assert one["train"]["loss"] == pytest.approx(want)
        assert abs(want) <= 0.03 + 1e-6
    save(done, tmp_path / "run")
    assert "the others" in (tmp_path / "run" / "report.html").read_text()


def test_small_intersections_are_pooled(csv: Path) -> None:
    prepared = prepare(options(csv, group="group,sex", pool=20))
    assert prepared.schema.groups[-1] == POOLED
    assert set(prepared.schema.pooled) == {"g2 & f", "g2 & m"}
    counts = np.bincount(prepared.federation.s[prepared.federation.y == 1])
    assert len(counts) == len(prepared.schema.groups) == 5
    with pytest.raises(FairSiloError, match="'g2 & f' has too few rows and is pooled"):
        prepare(options(csv, group="group,sex", pool=20, groups=("g0 & f", "g2 & f")))
    apart = prepare(options(csv, group="group,sex", pool=0))
    assert len(apart.schema.groups) == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    "notion", ["equalized-odds", "demographic-parity", "accuracy-parity", "bounded-loss"]
)
def test_every_notion_leaves_a_folder(notion: str, tmp_path: Path) -> None:
    csv = tmp_path / "loans.csv"
    # So many that all compared test rows have an interval.
    frame(9000).to_csv(csv, index=False)
    limit = 1.09 if notion == "bounded-loss" else 0.05
    done = run(csv, notion=notion, epsilon=limit, groups=("g0", "g1"))
    metrics = done.metrics
    assert metrics["converged"]
    assert metrics["train"]["dgeo_pooled"] <= limit + 1e-6
    assert (metrics["test"]["rate_gap"] is None) == (notion == "bounded-loss")
    assert metrics["test"]["deo"] is not None
    save(done, tmp_path / "run")
    report = (tmp_path / "run" / "report.html").read_text()
    assert "do not hold both groups" not in report
    saved = load(tmp_path / "run")
    made = card(saved.description, saved.metrics)
    assert made["fairness"]["notion"] == notion
    for figure in made["metrics"]["test"].values():
        low, high = figure["interval"] or (figure["value"], figure["value"])
        assert low <= figure["value"] <= high
    for pair, one in zip(made["metrics"]["pairs"], metrics["constraints"], strict=True):
        assert pair["loss_gap"] == pytest.approx(one["test"]["loss"])
        assert pair["rate_gap"] == pytest.approx(one["test"]["rate"])
        assert pair["loss_interval"][0] < pair["loss_gap"] < pair["loss_interval"][1]


@pytest.mark.slow
def test_losses_under_a_claim_have_their_own_spread(csv: Path) -> None:
    """Demographic parity on the test rows: -log p(c | x) of everybody, row by row."""
    done = run(csv, notion="demographic-parity", groups=("g0", "g1"))
    prepared, (model,) = prepare(done.options), done.trained.predictors
    losses = -np.log(model.probabilities(prepared.test_x, prepared.test_s)[:, 1])
    for one in done.metrics["test"]["claims"]:
        mine = losses[prepared.test_s == prepared.schema.groups.index(one["group"])]
        assert one["claim"] == "1"
        assert (one["rows"], one["loss"]) == (len(mine), pytest.approx(mine.mean()))
        assert one["loss_std"] == pytest.approx(mine.std())


@pytest.mark.slow
def test_a_bound_on_losses_that_nobody_can_keep_says_so(csv: Path) -> None:
    reason = run(csv, notion="bounded-loss", groups=("g0", "g1"), epsilon=0.5).metrics["reason"]
    assert "not converged" in reason
    assert "no model was found that keeps the mean loss of every group within the limit" in reason
    assert "raise epsilon" in reason


@pytest.mark.slow
def test_a_target_in_rates_for_three_groups(csv: Path, tmp_path: Path) -> None:
    done = run(csv, target_deo=0.05, groups=("g0", "g1"))
    assert done.metrics["train"]["deo"] <= 0.06
    assert done.metrics["epsilon"] is None
    save(done, tmp_path / "run")
    assert "the rates are" in (tmp_path / "run" / "report.html").read_text()
    text = (tmp_path / "run" / "card.md").read_text()
    assert "The difference of the groups' rates was to be at most 0.05; on the training" in text
    assert "Losses are limited" not in text


def test_limits_as_they_are_typed() -> None:
    assert limits_of("0.1") == (0.1, ())
    assert limits_of("A:B=0.2") == (0.05, (("A:B", 0.2),))
    assert limits_of('0.1,"a, b:c=d=0.2"') == (0.1, (("a, b:c=d", 0.2),))
    for wrong in ("", "x", "0.1,0.2", "A:B=", "A:B=0.1,A:B=0.2", "nan"):
        with pytest.raises(FairSiloError, match="cannot be read"):
            limits_of(wrong)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"groups": ("g0", "g9")}, "'g9' is not a value of column 'group': choose from 'g0', 'g1'"),
        ({"epsilons": (("g0:g9", 0.1),)}, "'g0:g9', which is not compared: choose from g0:g1"),
        ({"protected_class": "1,1"}, "names '1' twice"),
        ({"protected_class": "1,7"}, "'7' is not a class"),
        ({"group": "group,label"}, "names the label"),
        ({"group": "group,grup"}, "no column 'grup'"),
        ({"notion": "equality"}, "`notion` 'equality' is unknown"),
        ({"against": "all"}, "`against` 'all' is unknown"),
        ({"target_deo": 1.5}, "`target_deo` is 1.5"),
        ({"target_deo": 0.1, "notion": "bounded-loss"}, "has none"),
        ({"target_deo": 0.1, "method": "lco"}, "is for `method` fedfair"),
        ({"target_deo": 0.1, "epsilons": (("g0:g1", 0.1),)}, "not both"),
        ({"epsilons": (("g0:g1", -1.0),)}, "`epsilon` is -1.0"),
        ({"pool": -1}, "`pool` is -1"),
        ({"notion": "accuracy-parity", "method": "eo", "groups": ("g0", "g1")}, "two classes"),
    ],
)
def test_mistakes_get_a_sentence(csv: Path, given: dict[str, object], sentence: str) -> None:
    with pytest.raises(FairSiloError, match=sentence):
        run(csv, **given)
