"""`fairsilo flower status` and `watch` where nothing runs: what is known is in files."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from flwr.proto.control_pb2 import ListNodesResponse
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from typer.testing import CliRunner

from fairsilo.cli import app
from fairsilo.errors import FairSiloError
from fairsilo.network.ops import control
from fairsilo.network.ops.demo import make_demo
from fairsilo.network.ops.follow import Interrupted, follow
from fairsilo.network.ops.runs import LAST
from fairsilo.network.ops.status import last_run, status
from fairsilo.network.ops.workspace import Workspace
from fairsilo.network.server import coordinate
from fairsilo.progress import PROGRESS, Progress, held, locked, standing, time_left
from fairsilo.secagg.keys import read_public_key
from tests.network.silos import TownTransport, make_town
from tests.network.test_faults import CONFIG


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return make_demo(tmp_path_factory.mktemp("status") / "work", 3, rows=900, rounds=2)


def test_before_any_run(space: Workspace) -> None:
    found = status(space)
    assert found["run"] is None
    assert not found["superlink"]["up"]
    assert [silo["connected"] for silo in found["silos"]] == [None] * 3
    shown = CliRunner().invoke(app, ["flower", "status", "--folder", str(space.folder)])
    assert "no run was started from this folder yet" in shown.output
    with pytest.raises(FairSiloError, match=r"has no progress\.jsonl: give the `out` of a run"):
        status(space, space.folder)


def test_the_page_waits_for_the_first_run(
    space: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    last, out = space.folder / LAST, space.folder / "first"
    shown, waits = list[Path](), list[float]()

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            last.write_text(json.dumps({"out": str(out), "progress": PROGRESS, "run": "1"}))

    monkeypatch.setattr("fairsilo.network.ops.status.time.sleep", sleep)
    monkeypatch.setattr("fairsilo.cli.show.serve_page", lambda path, *_: shown.append(path))
    command = ["flower", "watch", "--folder", str(space.folder)]
    try:
        told = CliRunner().invoke(app, command, catch_exceptions=False).output
        assert f"no run of {space.agreed.name} was started from" in told
        assert (shown, len(waits)) == ([out / PROGRESS], 2)
        assert not CliRunner().invoke(app, command, catch_exceptions=False).output
    finally:
        last.unlink()
    nowhere = ["flower", "watch", "--folder", str(space.folder / "nowhere")]
    with pytest.raises(FairSiloError):
        CliRunner().invoke(app, nowhere, catch_exceptions=False)


@pytest.mark.slow
def test_of_a_run_by_real_handlers(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town, out = make_town(tmp_path / "town", silos=3, rounds=2), tmp_path / "run"
    names = dict(zip(town.agreed.names, space.agreed.names, strict=True))
    progress = Progress(out / PROGRESS, fresh=True)
    progress.say({"event": "submitting", "phase": "start"})
    progress.say({"event": "started", "pid": os.getpid(), "silos": town.agreed.names})
    coordinate(town.agreed, TownTransport(town), "1", CONFIG, out, progress.say)
    text = (out / PROGRESS).read_text()
    for theirs, ours in names.items():
        text = text.replace(f'"{theirs}"', f'"{ours}"')
    (out / PROGRESS).write_text(text)
    last = {"out": str(out), "progress": PROGRESS, "run": "1"}
    (space.folder / LAST).write_text(json.dumps(last))
    assert last_run(space) == out / PROGRESS
    command = ["flower", "status", "--folder", str(space.folder)]
    found = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    run = found["run"]
    assert (run["how"], run["phase"], run["round"]) == ("running", "writing", 2)
    assert run["loss"] > 0
    assert set(run["gaps"]) == set(run["about"]["constraints"])
    assert len(run["multipliers"]) == len(run["gaps"])
    assert run["seconds_left"] is None
    assert sum(run["seconds_by_phase"].values()) == pytest.approx(run["seconds"], abs=1e-3)
    # As if nothing had happened for a minute: the run goes on, and so do its clock and its phase.
    monkeypatch.setattr("time.time", lambda then=time.time: then() + 60)
    later = status(space)["run"]
    writing = later["seconds_by_phase"]["writing"]
    assert later["seconds"] == pytest.approx(run["seconds"] + 60, abs=20)
    assert writing == pytest.approx(run["seconds_by_phase"]["writing"] + 60, abs=20)
    assert later["seconds_by_phase"]["rounds"] == run["seconds_by_phase"]["rounds"]
    assert all(silo["fits"] and silo["fairsilo"] for silo in found["silos"])
    shown = CliRunner().invoke(app, command).output
    assert "it ends when training has converged" in shown
    progress.say({"event": "started", "pid": 2**22 + 1})
    monkeypatch.setattr("time.time", lambda then=time.time: then() + 60)
    dead = status(space)["run"]
    assert dead["how"] == "interrupted"
    # Of a run whose process is gone the clock stands still.
    assert dead["seconds"] < later["seconds"] + 20
    progress.say({"event": "finished", "notes": ["all went well"]})
    found = status(space)["run"]
    assert (found["how"], found["notes"]) == ("finished", ["all went well"])


def test_whether_a_run_goes_on_is_told_by_its_lock(space: Workspace, tmp_path: Path) -> None:
    """Not by a number: after a restart of the machine, or of its container, another process has it,
    and of one in another container it says nothing."""
    progress, nobody = Progress(tmp_path / PROGRESS, fresh=True), 2**22 + 1
    progress.say({"event": "started", "pid": nobody})
    assert status(space, tmp_path)["run"]["how"] == "interrupted"
    with locked(tmp_path, "server"):
        assert status(space, tmp_path)["run"]["how"] == "running"
        assert held(tmp_path, "server")
    assert held(tmp_path, "server") is False
    progress.say({"event": "started", "pid": os.getpid()})
    assert status(space, tmp_path)["run"]["how"] == "interrupted"
    with pytest.raises(Interrupted):
        follow(space, "1", tmp_path, lambda event: None)


def test_a_look_at_a_lock_keeps_nobody_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(tmp_path, "server"):
        pass
    with (tmp_path / ".lock-server").open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        ended = list[float]()

        def sleep(seconds: float) -> None:
            fcntl.flock(look, fcntl.LOCK_UN)
            ended.append(seconds)

        monkeypatch.setattr("fairsilo.progress.time.sleep", sleep)
        with locked(tmp_path, "server"):
            assert len(ended) == 1


@pytest.mark.parametrize("online", [True, False])
def test_since_when_a_silo_is_gone(
    space: Workspace, monkeypatch: pytest.MonkeyPatch, online: bool
) -> None:
    """Flower: a silo counts as online until two heartbeats of 30 s are missing; one that ends says
    so, and then it counts until now."""
    now, name = time.time(), space.agreed.names[0]
    key = next(one.public_key for one in space.agreed.parties if one.name == name)

    class Control:
        def ListNodes(self, request: object) -> Any:
            how = "online" if online else "offline"
            public = public_key_to_bytes(read_public_key(name, key))
            until = now + 45 if online else now - 5
            node = NodeInfo(
                public_key=public, status=how, online_until=until, heartbeat_interval=30
            )
            return ListNodesResponse(nodes_info=[node])

    monkeypatch.setattr(control, "_client", lambda space: nullcontext(Control()))
    monkeypatch.setattr("fairsilo.network.ops.status.controlled", lambda space: True)
    silo = status(space)["silos"][0]
    assert silo["connected"] is online
    assert silo["seconds_ago"] == pytest.approx(15 if online else 5, abs=5)
    shown = CliRunner().invoke(app, ["flower", "status", "--folder", str(space.folder)]).output
    assert ("gone for" in shown) is not online


def test_time_left_is_told_where_it_is_known() -> None:
    rounds = [{"event": "round", "round": k, "d": None, "seconds": 3.0} for k in (1, 2, 3)]
    told = [{**one, "loss": 0.5, "residual": 0.1, "time": 1.0} for one in rounds]
    planned = {"event": "posed", "about": {"rounds": 6}, "time": 0.0}
    assert time_left(standing(told)) is None
    assert time_left(standing([planned, *told])) == 12.0
