"""left.jsonl: a line for everything that left, before it leaves; other units; a full disk."""

from __future__ import annotations

import hashlib
import json
import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fairsilo.cli.flower import app
from fairsilo.network import ledger, left
from fairsilo.network.client import reply_to
from fairsilo.network.federation_file import Privacy
from fairsilo.network.ops.check import check_table
from fairsilo.network.settings import read_settings
from fairsilo.network.transport import size_of
from tests.network.silos import Town, TownTransport, make_town, train
from tests.network.test_silo import ask, ask_of

runner = CliRunner()
SILO = "silo0"
FULL = "this silo cannot write to its disk"


def lines_of(town: Town, name: str = SILO) -> list[dict[str, Any]]:
    return left.read(read_settings(town.settings(name)).left)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow beyond some bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("secure", [False, True])
def test_every_reply_has_its_line_and_no_line_a_value(tmp_path: Path, secure: bool) -> None:
    town = make_town(tmp_path, silos=3, rows=600, secure_aggregation=secure)
    post = TownTransport(town)
    train(town, post, tmp_path / "journal")
    for name in town.agreed.names:
        sent = [record for silo, record in post.seen if silo == name]
        lines = lines_of(town, name)
        assert len(lines) == len(sent) > 5
        for line, record in zip(lines, sent, strict=True):
            content = record["content"] if secure else record["vector"]
            assert line["digest"] == hashlib.sha256(content).hexdigest()
            assert line["bytes"] == size_of(record)
            assert line["refused"] == ""
            assert line["run"] == "1"
            assert not any(isinstance(value, list | dict) for value in line.values())
            if not secure:
                assert line["numbers"] == len(content) // 8
                assert (line["kind"], line["number"]) == (record["kind"], record["number"])
        kinds = {line["kind"] for line in lines}
        assert {"columns", "counts", "round", "evaluate"} <= kinds
        assert ({"advertise", "share", "reveal"} <= kinds) == secure
        # The rest of a line is digests, names and sizes; none of the vectors' numbers is there.
        if not secure:
            text = read_settings(town.settings(name)).left.read_text()
            vectors = np.concatenate([np.frombuffer(r["vector"], "<f8") for r in sent])
            odd = [repr(float(v)) for v in vectors if v != round(v, 3)]
            assert len(odd) > 100
            assert not [number for number in odd if number in text]
    path = read_settings(town.settings(SILO)).left
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_what_differential_privacy_cost_adds_up_to_the_ledger(tmp_path: Path) -> None:
    town = make_town(tmp_path, silos=3, rows=3000, dp=Privacy(epsilon=8.0), rounds=3)
    train(town, TownTransport(town), tmp_path / "journal")
    released = ledger.read(read_settings(town.settings(SILO)).ledger).releases
    paid = sum(line["dp_cost"] for line in lines_of(town))
    assert len(released) > 3
    np.testing.assert_allclose(paid, sum(one.cost for one in released))


def test_a_refusal_has_a_line_with_its_reason(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    reply = ask(town, ask_of(town, purpose="fedavg"))
    assert lines_of(town)[-1]["refused"] == reply["refused"] != ""
    assert lines_of(town)[-1]["numbers"] == 0


def test_who_a_silo_is_leaves_before_a_yes_and_has_a_line_too(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    read_settings(town.settings(SILO)).approvals.unlink()
    reply = reply_to({"version": 2, "step": "introduce"}, str(town.settings(SILO)), {}, "1")
    (line,) = lines_of(town)
    assert (line["kind"], line["numbers"]) == ("introduce", 0)
    assert line["digest"] == hashlib.sha256(reply["content"]).hexdigest()


def test_what_cannot_be_written_down_does_not_leave(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    assert not ask(town, ask_of(town))["refused"]
    path = read_settings(town.settings(SILO)).left
    before = path.read_bytes()
    with full_disk():
        reply = ask(town, ask_of(town))
    assert FULL in reply["refused"]
    assert "free space there, then use `resume`" in reply["refused"]
    assert reply["vector"] == b""
    # Nothing of a line is left, and the next one is whole.
    assert path.read_bytes() == before
    assert not ask(town, ask_of(town))["refused"]
    assert len(lines_of(town)) == 2
    # The system's own full device.
    path.unlink()
    path.symlink_to("/dev/full")
    assert "No space left on device" in ask(town, ask_of(town))["refused"]


def test_a_ledger_on_a_full_disk_is_told_and_resumed(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    with full_disk():
        reply = ask(town, ask_of(town, training="ab"))
    assert FULL in reply["refused"]
    assert not read_settings(town.settings(SILO)).ledger.exists()
    assert not ask(town, ask_of(town, training="ab"))["refused"]


def test_a_line_that_was_cut_off_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "left.jsonl"
    left.append(path, {"run": "1"})
    with path.open("a") as stream:
        stream.write('{"run": "2", "ki')
    left.append(path, {"run": "3"})
    assert [line["run"] for line in left.read(path)] == ["1", "3"]
    assert [line["run"] for line in left.read(path, "3")] == ["3"]


def test_the_owner_sees_all_that_left(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    path = str(town.settings(SILO))
    for run in ("1", "2"):
        reply_to(ask_of(town).to_record(), path, {}, run)
    reply_to(ask_of(town, purpose="fedavg").to_record(), path, {}, "2")
    shown = runner.invoke(app, ["left", "--settings", path], env={"COLUMNS": "200"}).output
    assert shown.count("counts") == 3
    assert "does not name the method 'fedavg'" in shown
    found = json.loads(runner.invoke(app, ["left", "--settings", path, "--json"]).output)
    assert len(found) == 3
    more = ["left", "--settings", path, "--run", "2", "--json"]
    assert [line["run"] for line in json.loads(runner.invoke(app, more).output)] == ["2", "2"]
    page = tmp_path / "left.html"
    runner.invoke(app, ["left", "--settings", path, "--html", str(page)])
    assert "3 replies in 2 runs" in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600


def test_nothing_is_cut_off_on_a_screen_of_80_columns(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    settings, run = read_settings(town.settings(SILO)), "8472639102837465921"
    why = ask(town, ask_of(town, purpose="fedavg"))["refused"]
    settings.left.unlink()
    values = {"number": 48, "numbers": 111743, "bytes": 1234567, "dp_cost": 0.000123}
    done = {"kind": "noisy-histogram", "digest": "0123456789abcdef" * 4, "refused": ""}
    left.note(settings, run, **values, **done)
    left.note(settings, run, kind="counts", number=3, numbers=0, bytes=159, refused=why)
    path = ["left", "--settings", str(town.settings(SILO))]
    shown = runner.invoke(app, path, env={"COLUMNS": "80"}).output
    assert f"run {run}, " in shown
    table = shown[shown.index("UTC") :]
    heads, told, *refused = table[: table.index("\n\n")].splitlines()
    assert told.split()[1:] == [
        "noisy-histogram", "48", "111,743", "1,234,567", "0.000123", "0123456789abcdef",
    ]  # fmt: skip
    place = heads.index("digest")
    assert "".join(line[place:].strip() for line in refused).replace(" ", "") == why.replace(
        " ", ""
    )
    assert refused[0].split()[1:5] == ["counts", "3", "0", "159"]


def in_grams(town: Town, name: str, times: float) -> None:
    path = town.folder / name / "table.csv"
    frame = pd.read_csv(path)
    frame["x0"] = (frame["x0"] + 5) * times
    frame.to_csv(path, index=False)


def test_other_units_are_told_to_the_owners_and_to_nobody_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x0 about 5 in three silos and about 5,000 in one: all four owners are warned."""
    town = make_town(tmp_path, secure_aggregation=False, rounds=3)
    for name in town.agreed.names:
        in_grams(town, name, 1000.0 if name == SILO else 1.0)
    post = TownTransport(town)
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    with caplog.at_level(logging.WARNING, logger="flwr"):
        train(town, post, tmp_path / "journal")
    for name in town.agreed.names:
        remarks = [one["remark"] for one in lines_of(town, name) if one["kind"] == left.REMARK]
        assert len(remarks) == 1, "once a run"
        assert remarks[0].startswith("column 'x0' has the mean")
        assert "other units" in remarks[0]
    own = pd.read_csv(town.folder / SILO / "table.csv").query("part == 'train'")["x0"]
    assert f"(mean {own.mean():.4g}, spread {own.std(ddof=0):.4g})" in caplog.text
    assert not any("units" in str(record) for _, record in post.seen)
    shown = runner.invoke(app, ["left", "--settings", str(town.settings(SILO))]).output
    assert "remark: column 'x0'" in shown


def test_silos_of_one_kind_have_no_remark(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False, rounds=3)
    train(town, TownTransport(town), tmp_path / "journal")
    assert not [line for line in lines_of(town) if line["kind"] == left.REMARK]


def test_a_line_names_the_question_that_was_answered() -> None:
    """The server adds fields that nobody answers, to look harmless in the owner's list."""
    record = {"step": "masked", "ask.kind": "round", "ask.number": 7, "kind": "counts", "number": 2}
    line = left.reply_line(record, {"content": b"12345678", "refused": ""}, 0.0)
    assert (line["kind"], line["number"], line["step"]) == ("round", 7, "masked")
    line = left.reply_line({"kind": "counts\x1b[2J", "number": 2}, {"refused": "a\nb"}, 0.0)
    assert (line["kind"], line["refused"]) == ("counts[2J", "ab")


def test_rows_of_weight_zero_are_told_to_the_owner(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False, rounds=3, weight="times")
    path = town.folder / SILO / "table.csv"
    frame = pd.read_csv(path)
    frame.loc[:6, "times"] = 0
    frame.to_csv(path, index=False)
    told = (
        f"7 of {len(frame)} rows have the weight 0 (times): they are left out, of training and of "
        "test"
    )
    assert told in check_table(read_settings(town.settings(SILO)), town.agreed).remarks
    train(town, TownTransport(town), tmp_path / "journal")
    assert [one["remark"] for one in lines_of(town) if one["kind"] == left.REMARK] == [told]
