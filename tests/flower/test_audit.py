"""A saved model measured anew on the silos' rows, in the clear and behind masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.auditor import AuditOptions, execute, write
from fairsilo.errors import FairSiloError
from fairsilo.flower.audit import audit
from fairsilo.flower.post import Fault
from fairsilo.flower.result import build_run
from fairsilo.flower.server import gather_for
from fairsilo.flower.wire import Record
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
    """Lists, which are intervals, as columns of their own."""
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
