"""Audits that are added: the counts of both, and bounds that hold at all times."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairsilo
from fairsilo.auditor import AuditOptions, execute
from fairsilo.auditor.ongoing import appended, earlier
from fairsilo.cli.failures import audit_failures
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.sequence import at_any_time
from fairsilo.report import audit_page
from fairsilo.run import execute as train
from fairsilo.run import save
from tests.auditor.conftest import Case


def audited(seed: int, rows: int = 600, wrong: float = 0.2, **more: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    y, s = rng.choice(["no", "yes"], rows), rng.choice(["Female", "Male"], rows)
    guess = np.where(rng.random(rows) < wrong, np.where(y == "yes", "no", "yes"), y)
    return fairsilo.audit(
        y=y, y_pred=guess, sensitive_features=s, protected_class="yes", draws=100, **more
    ).found


def test_counts_add_up_and_bounds_shrink(tmp_path: Path) -> None:
    first = appended(audited(0), earlier(tmp_path))
    (tmp_path / "audit.json").write_text(json.dumps(first))
    second = appended(audited(1), earlier(tmp_path))
    assert first["sequence"]["audits"] == 1
    assert second["sequence"]["audits"] == 2
    for one, two, both in zip(
        audited(0)["cells"], audited(1)["cells"], second["sequence"]["cells"], strict=True
    ):
        assert both["rows"] == one["rows"] + two["rows"]
        assert both["right"] == one["right"] + two["right"]
        for name, count in both["predicted"].items():
            assert count == one["predicted"][name] + two["predicted"][name]
    assert second["sequence"]["bound"] < first["sequence"]["bound"]
    said = second["certificate"]["statement"]
    assert said.startswith("Over 2 audits and 1,200 rows so far")
    assert "at all times together" in said
    assert "betting, at all times together" in audit_page(second)


def test_an_audit_that_was_not_appended_counts_too() -> None:
    """What lies in the folder is added, however it was made."""
    plain, first = audited(0), appended(audited(0), None)
    assert appended(audited(1), plain)["sequence"] == appended(audited(1), first)["sequence"]


@pytest.mark.parametrize("notion", ["equal-opportunity", "demographic-parity", "accuracy-parity"])
def test_the_bound_is_of_the_notions_rates(notion: str) -> None:
    """By hand, from the counts of both audits."""
    parts = [audited(seed, notion=notion, target_deo=0.4) for seed in (0, 1)]
    found = appended(parts[1], appended(parts[0], None))
    hits, rows = np.zeros((2, 2), np.int64)
    for cell in (cell for one in parts for cell in one["cells"]):
        if notion == "equal-opportunity" and cell["class"] != "yes":
            continue
        g = ["Female", "Male"].index(cell["group"])
        shares = notion == "demographic-parity"
        hits[g] += cell["predicted"]["yes"] if shares else cell["right"]
        rows[g] += cell["rows"]
    ends = [at_any_time(int(h), int(n), 0.975) for h, n in zip(hits, rows, strict=True)]
    bound = max(ends[0].high - ends[1].low, ends[1].high - ends[0].low)
    (line,) = found["sequence"]["lines"]
    assert (line["rows_a"], line["rows_b"]) == tuple(rows)
    assert line["bound"] == found["sequence"]["bound"] == pytest.approx(bound)
    assert found["sequence"]["value"] == pytest.approx(abs(hits[0] / rows[0] - hits[1] / rows[1]))
    assert found["certificate"]["rates"]["bound"] == pytest.approx(bound)


def test_the_target_is_held_against_all_audits_together() -> None:
    """Certified after enough rows, which the first audit says how many are; and not before."""
    found, met = None, list[bool]()
    for seed in range(8):
        found = appended(audited(seed, target_deo=0.1), found)
        met.append(found["certificate"]["met"])
        assert found["certificate"]["met"] is (found["sequence"]["bound"] <= 0.1)
        assert ("uncertified" in audit_failures(found)) is not met[-1]
        if seed == 0:
            assert found["sequence"]["needed"] > 0
            assert "would settle it" in found["certificate"]["statement"]
    assert (met[0], met[-1]) == (False, True)
    assert found is not None
    assert "So the target of 10 points is kept: certified." in found["certificate"]["statement"]


def test_a_lucky_batch_certifies_nothing() -> None:
    """Each audit by itself is exact at one time; of many one is lucky, and all together are not."""
    lucky = audited(0, rows=20_000, wrong=0.0, target_deo=0.1)
    assert lucky["certificate"]["met"] is True
    s, y = np.repeat(["Female", "Male"], 20_000), np.full(40_000, "yes", dtype=object)
    y[::2] = "no"
    unfair = np.where(s == "Female", y, "no")
    before = fairsilo.audit(
        y=y, y_pred=unfair, sensitive_features=s, protected_class="yes", target_deo=0.1, draws=100
    ).found
    found = appended(lucky, before)
    assert found["certificate"]["met"] is False
    assert audit_failures(found) == ["missed", "uncertified"]
    assert audit_failures(lucky) == []


def test_a_batch_below_the_minimum_adds_nothing() -> None:
    """The difference of two audits is the new rows: a cell of few of them stays unchanged."""
    batch = audited(3, rows=12)
    rows = [one["rows"] for one in batch["cells"]]
    least = sorted(rows)[2]
    before = appended(audited(0), None)
    after = appended(audited(3, rows=12, min_cell=least), before)
    for new, one, two in zip(
        rows, before["sequence"]["cells"], after["sequence"]["cells"], strict=True
    ):
        assert two["rows"] - one["rows"] == (new if new >= least else 0)
    assert 0 < sum(new < least for new in rows) < len(rows)
    # Of a notion that mixes classes that would be a selection: nothing is certified any more.
    mixed: dict[str, Any] = {"notion": "demographic-parity", "target_deo": 0.9}
    before = appended(audited(0, **mixed), None)
    after = appended(audited(3, rows=12, min_cell=least, **mixed), before)
    later = appended(audited(4, **mixed), after)
    assert [one["certificate"]["met"] for one in (before, after, later)] == [True, None, None]
    assert "There is no certificate of the rates" in later["certificate"]["statement"]


def test_rows_of_training_certify_nothing_for_good() -> None:
    before = appended(audited(0, target_deo=0.9, unseen=False), None)
    after = appended(audited(1, target_deo=0.9, unseen=True), before)
    for one in (before, after):
        assert one["certificate"]["met"] is None
        assert "it was trained on rows of these audits" in one["certificate"]["statement"]
    known, unknown = (
        appended(audited(1, unseen=True), appended(audited(0, unseen=seen), None))
        for seen in (True, None)
    )
    assert "that the model did not see" in known["certificate"]["statement"]
    assert "provided the model never saw them" in unknown["certificate"]["statement"]


@pytest.mark.parametrize(
    ("name", "other"),
    [("level", {"level": 0.9}), ("notion", {"notion": "demographic-parity"})],
)
def test_only_audits_of_the_same_are_added(name: str, other: dict[str, Any]) -> None:
    with pytest.raises(FairSiloError, match=f"another {name}"):
        appended(audited(0), appended(audited(1, **other), None))


def test_another_model_of_the_same_name_is_not_added(case: Case, tmp_path: Path) -> None:
    """A bound of the rates of two models would be of neither."""
    run, asked = tmp_path / "run", AuditOptions(data=case.table, model=tmp_path / "run", draws=100)
    shutil.copytree(case.model, run)
    first = appended(execute(asked), None)
    assert appended(execute(asked), first)["sequence"]["audits"] == 2
    options = replace(case.run.options, epsilon=1e-3)
    save(train(options, baseline=False), run)
    other = execute(asked)
    with pytest.raises(FairSiloError, match="run run is another model"):
        appended(other, first)
    # What an older version wrote does not say.
    del first["model_sha256"]
    assert appended(other, first)["sequence"]["audits"] == 2


def test_what_an_older_version_added_is_refused(tmp_path: Path) -> None:
    """Its counts do not have the classes that were predicted, which shares need."""
    old = appended(audited(0), None)
    for cell in old["sequence"]["cells"]:
        del cell["predicted"]
    with pytest.raises(FairSiloError, match="older FairSilo"):
        appended(audited(1), old)
    for text in ("{", "[]", "{}"):
        (tmp_path / "audit.json").write_text(text)
        with pytest.raises(FairSiloError, match="is not an audit"):
            earlier(tmp_path)
