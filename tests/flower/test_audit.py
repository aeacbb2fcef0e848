"""A saved model measured anew on the silos' rows, in the clear and behind masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

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
    save(build_run(town.charter, finished, post.traffic, False), folder / "out")
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
    for key in ("accuracy", "deo", "rows", "dgeo_pooled"):
        assert found["test"][key] == pytest.approx(saved.metrics["test"][key], abs=1e-12)
    for key in ("loss", "accuracy", "rows"):
        assert found["train"][key] == pytest.approx(saved.metrics["train"][key], abs=1e-12)
    assert found["secure_aggregation"] is secure
    assert found["absent"] == {}


def test_names_the_silos_that_did_not_answer(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1, secure_aggregation=False)
    saved = trained(town, tmp_path)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return Fault("is gone") if name == "silo1" else None

    post = TownPost(town, change)
    found = audit(town.charter, gather_for(town.charter, post, "1", 1.0), post.present(), saved)
    assert found["absent"] == {"silo1": "is gone"}
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
