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
from fairsilo.network.audit import audit, audit_columns
from fairsilo.network.audit_columns import Answers
from fairsilo.network.client import UNSAID, reply_to
from fairsilo.network.federation_file import Privacy
from fairsilo.network.ledger import read
from fairsilo.network.ops.check import check_table
from fairsilo.network.server import aggregate_for
from fairsilo.network.settings import read_settings
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask, Record
from fairsilo.run import Saved, load, save
from tests.network.silos import Town, TownTransport, make_town, train


def trained(town: Town, folder: Path) -> Saved:
    post = TownTransport(town)
    run, _ = train(town, post, folder / "journal")
    save(run, folder / "out")
    return load(folder / "out")


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_finds_what_the_run_found(tmp_path: Path, secure: bool) -> None:
    town = make_town(tmp_path / "town", rounds=2, secure_aggregation=secure)
    saved = trained(town, tmp_path)
    for name in town.agreed.names:
        path = town.settings(name)
        path.write_text(path.read_text() + "minimum_cell = 1\n")
    post = TownTransport(town, run="2")
    found = audit(town.agreed, aggregate_for(town.agreed, post, "2", 1.0), post.present(), saved)
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


@pytest.mark.slow
def test_the_network_says_what_the_simulation_says(tmp_path: Path) -> None:
    """The same rows, the same small cells left out, the same document."""
    town = make_town(tmp_path / "town", rounds=3)
    saved = trained(town, tmp_path)
    post = TownTransport(town, run="2")
    over = audit(town.agreed, aggregate_for(town.agreed, post, "2", 1.0), post.present(), saved)
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

    post = TownTransport(town, change)
    found = audit(town.agreed, aggregate_for(town.agreed, post, "1", 1.0), post.present(), saved)
    assert found["network"]["absent"] == {"silo1": "is gone"}
    assert "silo silo1 is gone" in found["notes"]
    assert found["train"]["rows"] < saved.metrics["train"]["rows"]


def test_a_silo_may_refuse_audits(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1, secure_aggregation=False, minimum_silos=4)
    saved = trained(town, tmp_path)
    path = town.settings("silo2")
    path.write_text(path.read_text() + 'methods = ["fedfair"]\n')
    post = TownTransport(town)
    with pytest.raises(FairSiloError, match="silo2 refused: this silo does not answer for 'audit'"):
        audit(town.agreed, aggregate_for(town.agreed, post, "1", 1.0), post.present(), saved)


def test_a_model_of_another_table_is_refused(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1, secure_aggregation=False)
    saved = trained(town, tmp_path)
    other = saved.schema.model_copy(update={"label": "other"})
    post = TownTransport(town)
    gather = aggregate_for(town.agreed, post, "1", 1.0)
    with pytest.raises(FairSiloError, match="another table"):
        audit(town.agreed, gather, post.present(), replace(saved, schema=other))
    two = replace(saved, predictors=saved.predictors * 2)
    with pytest.raises(FairSiloError, match="one plain model"):
        audit(town.agreed, gather, post.present(), two)


def with_answers(folder: Path, **values: Any) -> Town:
    """Silos whose tables have the decisions and scores of a model trained elsewhere."""
    town = make_town(folder, **values)
    rng = np.random.default_rng(5)
    score = 1 / (1 + np.exp(-town.table["x0"] - rng.normal(size=len(town.table))))
    town.table["score"], town.table["decision"] = score, np.where(score > 0.4, "1", "0")
    for name in town.agreed.names:
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
    post = TownTransport(town)
    over = audit_columns(
        town.agreed, aggregate_for(town.agreed, post, "1", 1.0), post.present(), what
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
    scalings = np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))
    asked = Ask(Answers("classes"), 1, town.agreed.fingerprint, "audit", True, scalings)
    reply = reply_to(asked.to_record(), str(town.settings("silo0")), {}, "1")
    assert "name no column with another model's answers" in reply["refused"]
    path = town.settings("silo0")
    path.write_text(path.read_text() + 'audit_predictions = "group"\n')
    problems = check_table(read_settings(path), town.agreed).problems
    assert "holds a value that is no class" in " ".join(problems)
    assert reply_to(asked.to_record(), str(path), {}, "1")["refused"] == UNSAID


def test_under_differential_privacy_the_columns_of_test_rows_only(tmp_path: Path) -> None:
    town = with_answers(tmp_path / "town", dp=Privacy(epsilon=8.0))
    post = TownTransport(town)
    gather = aggregate_for(town.agreed, post, "1", 1.0)
    found = audit_columns(town.agreed, gather, post.present(), "probabilities")
    assert "train" not in found
    assert 0 < found["rows"] <= len(town.table.query("part == 'test'"))
    assert not read(town.folder / "silo0" / "ledger.json").releases


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"notion": "demographic-parity"},
        {"notion": "equalized-odds"},
        {"notion": "bounded-loss", "epsilon": 0.6},
        {"table": {"groups": 3}, "against": "rest"},
    ],
    ids=lambda s: "-".join(map(str, s.values())),
)
def test_an_audit_compares_every_pair_whatever_was_constrained(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """As the simulation's audit of the same run does."""
    town = with_answers(tmp_path / "town", rounds=3, rows=1600, **settings)
    saved = trained(town, tmp_path)
    post = TownTransport(town, run="2")
    over = audit(town.agreed, aggregate_for(town.agreed, post, "2", 1.0), post.present(), saved)
    town.table.to_csv(tmp_path / "all.csv", index=False)
    here = execute(
        AuditOptions(
            data=str(tmp_path / "all.csv"), model=tmp_path / "out", client="client", split="part",
            min_cell=5,
        )
    )  # fmt: skip
    assert here["deo"]["pooled"]["value"] is not None
    assert over["deo"]["pooled"]["value"] == pytest.approx(here["deo"]["pooled"]["value"])
    assert over["certificate"]["statement"] == here["certificate"]["statement"]
    for part in ("cells", "pairs"):
        ours, theirs = (pd.json_normalize(one[part]) for one in (here, over))
        pd.testing.assert_frame_equal(_numbers(ours), _numbers(theirs), atol=1e-9)
    # And so it does of any model through its answers.
    gather = aggregate_for(town.agreed, TownTransport(town, run="3"), "3", 1.0)
    columns = audit_columns(town.agreed, gather, post.present(), "probabilities")
    assert len(columns["pairs"]) == len(here["pairs"]) > 0
