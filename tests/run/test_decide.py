"""Where a model decides: given, or chosen from sums on the training rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo import FedFairClassifier
from fairsilo.data import infer_schema, make_table
from fairsilo.errors import FairSiloError
from fairsilo.export.onnx import to_onnx
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.member import Member
from fairsilo.network.ops.keys import make_key
from fairsilo.run import Options, execute, load, save
from fairsilo.run.decide import decision_note
from fairsilo.run.predict import score_table

FRAME = make_table(900, silos=3, bias=1.0, seed=2)


def options(folder: Path, **told: Any) -> Options:
    FRAME.to_csv(folder / "t.csv", index=False)
    return Options(
        data=str(folder / "t.csv"), label="label", protected_class="1", group="group",
        client="client", epsilon=0.05, **told,
    )  # fmt: skip


def positives(cells: list[dict[str, Any]]) -> int:
    return sum(cell["predicted"]["1"] for cell in cells)


def test_one_half_is_not_told_apart_from_itself() -> None:
    (told,) = decision_note("0.5", 0.5, ["0", "1"])
    assert told == "'1', the second class, is predicted from a probability of 0.5 on, and '0' below"


@pytest.mark.parametrize("engine", ["pooled", "clientwise"])
def test_a_given_probability_decides_everywhere(tmp_path: Path, engine: str) -> None:
    run = execute(options(tmp_path, decide_at="0.3", engine=engine))
    plain = execute(options(tmp_path, engine=engine), baseline=False)
    assert run.trained.outcome.theta == pytest.approx(plain.trained.outcome.theta, abs=1e-9)
    assert run.metrics["decide_at"] == 0.3
    (told,) = (one for one in run.metrics["notes"] if "second class" in one)
    assert told == (
        "'1', the second class, is predicted from a probability of 0.3 on, not from 0.5, and '0' "
        "below"
    )
    assert positives(run.metrics["test"]["cells"]) > positives(plain.metrics["test"]["cells"])
    assert run.metrics["test"]["auc"] == plain.metrics["test"]["auc"]
    p = run.trained.predictors[0].probabilities(run.prepared.test_x, run.prepared.test_s)[:, 1]  # type: ignore[attr-defined]
    assert positives(run.metrics["test"]["cells"]) == int((p >= 0.3).sum())
    save(run, tmp_path / "run")
    scores, _ = score_table(tmp_path / "run", tmp_path / "t.csv")
    assert ((scores["probability 1"] >= 0.3) == (scores["predicted"] == "1")).all()


@pytest.mark.parametrize(
    "more",
    [
        {"engine": "pooled"},
        {"engine": "clientwise"},
        pytest.param({"solver": "lbfgs", "engine": "clientwise"}, marks=pytest.mark.slow),
    ],
)
def test_a_target_in_rates_is_of_the_decisions_there(tmp_path: Path, more: dict[str, Any]) -> None:
    run = execute(options(tmp_path, decide_at="0.8", target_deo=0.02, **more))
    prepared, (model,) = run.prepared, run.trained.predictors
    rows = prepared.federation  # type: ignore[attr-defined]
    p = model.probabilities(rows.x, rows.s)[:, 1]
    found = [p[(rows.s == k) & (rows.y == 1)] for k in (0, 1)]
    apart = {cut: abs(float(np.subtract(*((one >= cut).mean() for one in found))))
             for cut in (0.8, 0.5)}  # fmt: skip
    assert apart[0.8] <= 0.02 < apart[0.5]
    assert run.metrics["train"]["rate_gap"] == pytest.approx(apart[0.8])
    assert run.metrics["target_met"] is True
    assert not any("no limit binds" in note for note in run.metrics["notes"])


def test_a_notion_about_rates_has_its_target_there() -> None:
    told: dict[str, Any] = {"data": "t.csv", "notion": "demographic-parity"}
    assert Options(**told, decide_at="0.3").target_deo == 0.05
    assert Options(**told, decide_at="f1").target_deo is None


@pytest.mark.slow
def test_a_search_measures_rates_where_the_model_decides(tmp_path: Path) -> None:
    told = options(tmp_path, decide_at="0.8", target_deo=0.03, target_by="search", drop_group=True)
    run = execute(told, baseline=False)
    gap = run.metrics["train"]["rate_gap"]
    assert gap <= 0.03
    assert any(f"its rates are {gap:.4f} apart" in note for note in run.metrics["notes"])


@pytest.mark.slow
def test_a_search_says_where_no_limit_is_needed(tmp_path: Path) -> None:
    how: dict[str, Any] = {"target_by": "search"}
    loose = execute(options(tmp_path, target_deo=0.9, **how), baseline=False).metrics["notes"]
    assert any("no limit binds: without one the rates are 0." in note for note in loose)
    strict = execute(options(tmp_path, target_deo=0.01, **how), baseline=False).metrics["notes"]
    assert not any("no limit binds" in note for note in strict)


def test_the_exported_model_decides_there(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    save(execute(options(tmp_path, decide_at="0.3"), baseline=False), tmp_path / "run")
    session = onnxruntime.InferenceSession(to_onnx(load(tmp_path / "run")))
    feeds = {
        one.name: FRAME[one.name]
        .to_numpy(dtype=object if "string" in one.type else np.float64)
        .reshape(-1, *[1] * (len(one.shape) - 1))
        for one in session.get_inputs()
    }
    label, probabilities = session.run(None, feeds)
    assert ((probabilities[:, 1] >= 0.3) == (label == "1")).all()
    assert (label == "1").any()


@pytest.mark.parametrize("aim", ["balanced-accuracy", "f1", "share=0.2"])
def test_what_is_chosen_is_best_on_the_training_rows(tmp_path: Path, aim: str) -> None:
    clf = FedFairClassifier(0.05, decide_at=aim)
    x, y = FRAME[["x0", "x1", "c0"]], FRAME["label"].to_numpy()
    clf.fit(x, y, sensitive_features=FRAME["group"], clients=FRAME["client"])
    p, said = clf.predict_proba(x)[:, 1], clf.predict(x) == "1"
    cut = p[said].min()
    assert (said == (p >= cut)).all()
    if aim == "share=0.2":
        assert said.mean() == pytest.approx(0.2, abs=0.02)
        return

    def value(chosen: Any) -> float:
        hits, false = (chosen & (y == "1")).sum(), (chosen & (y == "0")).sum()
        if aim == "f1":
            return float(2 * hits / (hits + false + (y == "1").sum()))
        return float(hits / (y == "1").sum() - false / (y == "0").sum())

    assert value(said) >= max(value(p >= t) for t in np.linspace(0.02, 0.98, 97)) - 0.01
    assert clf.predict_log_proba(x) == pytest.approx(np.log(clf.predict_proba(x)))


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"decide_at": "1.5"}, "`decide_at` '1.5' is unknown"),
        ({"decide_at": "best"}, "give a probability such as 0.3, balanced-accuracy, f1, or share"),
        ({"decide_at": "share=2"}, "is unknown"),
        ({"decide_at": "0.3", "method": "st"}, "`decide_at` is for one model"),
        ({"decide_at": "f1", "target_deo": 0.02}, "is known after training alone: train without"),
        ({"decide_at": "f1", "dp_epsilon": 4.0}, "give a number"),
    ],
)
def test_mistakes(told: dict[str, Any], message: str) -> None:
    with pytest.raises(FairSiloError, match=message):
        Options(data="t.csv", **told)


def test_what_cannot_be_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    table = make_table(60, classes=3)
    schema = infer_schema(table, label="label", group="group", exclude=["client"])
    member = Member(name="a", public_key=make_key(tmp_path / "a.key", "a"))
    values: dict[str, Any] = {"table": schema, "protected_class": "1", "silos": (member,)}
    values |= {"minimum_silos": 1, "secure_aggregation": False, "decide_at": "0.3"}
    with pytest.raises(ValueError, match="a label with two classes"):
        FederationFile(**values)
    with pytest.raises(FairSiloError, match="whose Hessian is exact"):
        Options(data="t.csv", model="mlp", penalty="auto")
