"""A saved model audited on the silos' rows, in the clear and behind masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.auditor import AuditOptions, execute, write
from fairsilo.errors import FairSiloError
from fairsilo.flower.audit import audit, audit_columns
from fairsilo.flower.charter import Privacy
from fairsilo.flower.check import check_table
from fairsilo.flower.client import UNSAID, reply_to
from fairsilo.flower.ledger import read
from fairsilo.flower.post import Fault
from fairsilo.flower.result import build_run
from fairsilo.flower.server import gather_for
from fairsilo.flower.settings import read_settings
from fairsilo.flower.wire import Ask, Record
from fairsilo.run import Saved, load, save
from tests.flower.silos import Town, TownPost, make_town, train


def trained(town: Town, folder: Path) -> Saved:
    post = TownPost(town)
    finished, _ = train(town, post, folder / "journal")
    save(build_run(town.charter, finished, False), folder / "out")
    return load(folder / "out")


@pytest.mark.parametrize("secure", [False, True])
def test_finds_what_the_run_found(tmp_path: Path, secure: bool) -> None:
    town = make_town(tmp_path / "town", rounds=2, secure_aggregation=secure)
    saved = trained(town, tmp_path)
    for name in town.charter.names:
        path = town.settings(name)
        path.write_text(path.read_text() + "minimum_cell = 1\n")
    post = TownPost(town, run="2")
    found = audit(town.charter, gather_for(town.charter, post, "2", 1.0), post.present(), saved)
    test = saved.metrics["test"]
    assert found["rows"] == test["rows"]
    assert found["accuracy"]["value"] == pytest.approx(test["accuracy"], abs=1e-12)
    assert found["deo"]["pooled"]["value"] == pytest.approx(test["deo"], abs=1e-12)
    assert found["dgeo"]["pooled"]["value"] == pytest.approx(test["dgeo_pooled"], abs=1e-12)
    own = saved.metrics["certificate"]
    assert found["certificate"]["bounds"] == pytest.approx(own["bounds"], abs=1e-12)
    for key in ("loss", "accuracy", "rows"):
        assert found["train"][key] == pytest.approx(saved.metrics["train"][key], abs=1e-12)
    assert found["network"]["secure_aggregation"] is secure
    assert found["network"]["absent"] == {}
    write(found, tmp_path / "audit")
    page = (tmp_path / "audit" / "audit.html").read_text()
    assert "The groups are recognised" in page


def test_the_network_says_what_the_simulation_says(tmp_path: Path) -> None:
    """The same rows, the same small cells left out, the same document."""
    town = make_town(tmp_path / "town", rounds=3)
    saved = trained(town, tmp_path)
    post = TownPost(town, run="2")
    over = audit(town.charter, gather_for(town.charter, post, "2", 1.0), post.present(), saved)
    town.table.to_csv(tmp_path / "all.csv", index=False)
    here = execute(
        AuditOptions(
            data=str(tmp_path / "all.csv"), model=tmp_path / "out", client="client", split="part",
            min_cell=5,
        )
    )  # fmt: skip
    assert over["certificate"]["statement"] == here["certificate"]["statement"]
    assert sum(cell["hidden"] for cell in here["cells"]) > 0
    for part in ("cells", "pairs"):
        ours, theirs = (pd.json_normalize(one[part]) for one in (here, over))
        pd.testing.assert_frame_equal(_numbers(ours), _numbers(theirs), atol=1e-9)


def _numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Split lists (intervals) into separate columns."""
    spans = [str(name) for name in frame.columns if isinstance(frame[name].iloc[0], list)]
    ends = {f"{name}.{k}": [span[k] for span in frame[name]] for name in spans for k in (0, 1)}
    return frame.drop(columns=spans).assign(**ends)


def test_names_the_silos_that_did_not_answer(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1, secure_aggregation=False)
    saved = trained(town, tmp_path)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is gone") if name == "silo1" else None

    post = TownPost(town, change)
    found = audit(town.charter, gather_for(town.charter, post, "1", 1.0), post.present(), saved)
    assert found["network"]["absent"] == {"silo1": "is gone"}
    assert "silo silo1 is gone" in found["notes"]
    assert found["train"]["rows"] < saved.metrics["train"]["rows"]


def test_a_silo_may_refuse_audits(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1, secure_aggregation=False, minimum_silos=4)
    saved = trained(town, tmp_path)
    path = town.settings("silo2")
    path.write_text(path.read_text() + 'methods = ["fedfair"]\n')
    post = TownPost(town)
    with pytest.raises(FairSiloError, match="silo2 refused: this silo does not answer for 'audit'"):
        audit(town.charter, gather_for(town.charter, post, "1", 1.0), post.present(), saved)


def test_a_model_of_another_table_is_refused(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1, secure_aggregation=False)
    saved = trained(town, tmp_path)
    other = saved.schema.model_copy(update={"label": "other"})
    post = TownPost(town)
    gather = gather_for(town.charter, post, "1", 1.0)
    with pytest.raises(FairSiloError, match="another table"):
        audit(town.charter, gather, post.present(), replace(saved, schema=other))
    two = replace(saved, predictors=saved.predictors * 2)
    with pytest.raises(FairSiloError, match="one plain model"):
        audit(town.charter, gather, post.present(), two)


def with_answers(folder: Path, **values: Any) -> Town:
    """Silos whose tables have the decisions and scores of a model trained elsewhere."""
    town = make_town(folder, **values)
    rng = np.random.default_rng(5)
    score = 1 / (1 + np.exp(-town.table["x0"] - rng.normal(size=len(town.table))))
    town.table["score"], town.table["decision"] = score, np.where(score > 0.4, "1", "0")
    for name in town.charter.names:
        own = town.table[town.table["client"] == name].drop(columns="client")
        own.to_csv(town.folder / name / "table.csv", index=False)
        path = town.settings(name)
        lines = 'audit_predictions = "decision"\naudit_probability = ["score"]\n'
        path.write_text(path.read_text() + lines)
    return town


@pytest.mark.parametrize("what", ["classes", "probabilities"])
@pytest.mark.parametrize("secure", [False, True])
def test_any_model_through_columns_of_the_silos_tables(
    tmp_path: Path, secure: bool, what: str
) -> None:
    """The document is the simulation's, of the same columns."""
    town = with_answers(tmp_path / "town", secure_aggregation=secure)
    post = TownPost(town)
    over = audit_columns(
        town.charter, gather_for(town.charter, post, "1", 1.0), post.present(), what
    )
    town.table.to_csv(tmp_path / "all.csv", index=False)
    here = execute(
        AuditOptions(
            data=str(tmp_path / "all.csv"), predictions="decision", client="client", split="part",
            probability=("score",) if what == "probabilities" else (), label="label",
            group="group", protected_class=("1",), min_cell=5,
        )
    )  # fmt: skip
    assert over["deo"]["pooled"]["value"] == pytest.approx(here["deo"]["pooled"]["value"])
    assert over["certificate"]["statement"] == here["certificate"]["statement"]
    assert (over["dgeo"]["pooled"]["value"] is None) is (what == "classes")
    for part in ("cells", "pairs"):
        ours, theirs = (pd.json_normalize(one[part]) for one in (here, over))
        pd.testing.assert_frame_equal(_numbers(ours), _numbers(theirs), atol=1e-9)
    assert over["notes"] == [note.replace("than 5 rows", MINIMUM) for note in here["notes"]]
    write(over, tmp_path / "audit")


MINIMUM = "rows than the silo's own minimum"


def test_the_silo_and_not_the_server_names_the_columns(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False)
    asked = Ask("evaluate", 1, town.charter.fingerprint, purpose="audit", order="classes")
    reply = reply_to(asked.to_record(), str(town.settings("silo0")), {}, "1")
    assert "name no column with another model's answers" in reply["refused"]
    path = town.settings("silo0")
    path.write_text(path.read_text() + 'audit_predictions = "group"\n')
    problems = check_table(read_settings(path), town.charter).problems
    assert "holds a value that is no class" in " ".join(problems)
    assert reply_to(asked.to_record(), str(path), {}, "1")["refused"] == UNSAID


def test_under_differential_privacy_the_columns_of_test_rows_only(tmp_path: Path) -> None:
    town = with_answers(tmp_path / "town", dp=Privacy(epsilon=8.0))
    post = TownPost(town)
    gather = gather_for(town.charter, post, "1", 1.0)
    found = audit_columns(town.charter, gather, post.present(), "probabilities")
    assert "train" not in found
    assert 0 < found["rows"] <= len(town.table.query("part == 'test'"))
    assert not read(town.folder / "silo0" / "ledger.json").releases
