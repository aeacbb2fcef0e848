"""The group is a feature unless it is dropped: said at every training, with the difference."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from fairsilo.data import make_table
from fairsilo.report.sections.group_seen import group_words
from fairsilo.run import Options, execute, save


@pytest.fixture
def options(tmp_path: Path) -> Options:
    frame = make_table(500, silos=3, bias=1.0, seed=3)
    frame.to_csv(tmp_path / "loans.csv", index=False)
    return Options(
        data=str(tmp_path / "loans.csv"), label="label", protected_class="1", group="group",
        client="client", epsilon=0.02,
    )  # fmt: skip


def test_the_difference_is_that_of_dropping_it(options: Options, tmp_path: Path) -> None:
    run, blind = execute(options), execute(replace(options, drop_group=True))
    told = run.metrics["group_feature"]
    assert told["columns"] == ["group"]
    assert told["without"] == {key: blind.metrics["test"][key] for key in told["without"]}
    assert told["without"]["dgeo_pooled"] != run.metrics["test"]["dgeo_pooled"]
    assert "group_feature" not in blind.metrics
    assert group_words(blind.metrics) is None
    save(run, tmp_path / "run")
    said = f"accuracy is {told['without']['accuracy']:.4f} instead of"
    for name in ("report.html", "card.md"):
        text = (tmp_path / "run" / name).read_text()
        assert "The model sees the group (group): trained without" in text
        assert said in text


def test_with_a_declared_schema_too(options: Options, tmp_path: Path) -> None:
    schema = execute(options, baseline=False).prepared.schema
    (tmp_path / "schema.json").write_text(schema.model_dump_json())
    declared = replace(options, schema=tmp_path / "schema.json")
    told = execute(declared).metrics["group_feature"]
    assert told == execute(options).metrics["group_feature"]
    assert "without" in told
    blind = execute(replace(declared, drop_group=True), baseline=False)
    assert "group" not in blind.prepared.schema.columns
    assert "group_feature" not in blind.metrics


@pytest.mark.parametrize("change", [{"solver": "lbfgs", "rounds": 2}, {"features": ("group",)}])
def test_where_it_is_not_cheap_or_nothing_is_left_it_is_only_said(
    options: Options, change: dict[str, object]
) -> None:
    metrics = execute(replace(options, **change)).metrics  # type: ignore[arg-type]
    assert metrics["group_feature"] == {"columns": ["group"]}
    assert group_words(metrics) == "the model sees the group (group)"


def test_logging_says_what_the_command_prints(
    options: Options, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(replace(options, epsilon=5.0), baseline=False)
    assert caplog.text == "" or "WARNING" in caplog.text
    assert capsys.readouterr() == ("", "")
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="fairsilo"):
        run = execute(replace(options, epsilon=5.0), baseline=False)
    by_level = {record.levelname: record.getMessage() for record in caplog.records}
    assert {record.name for record in caplog.records} == {"fairsilo"}
    rounds = [one for one in caplog.records if one.getMessage().startswith("round ")]
    assert len(rounds) == run.metrics["rounds"]
    assert "test rows: accuracy" in by_level["INFO"]
    warned = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert [one for one in warned if not one.startswith("this model is")] == run.metrics["notes"]
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="fairsilo"):
        metrics = execute(options).metrics
    assert "without" in metrics["group_feature"]
    assert sum("test rows: accuracy" in one.getMessage() for one in caplog.records) == 1
