"""`fairsilo flower status` and `watch` where nothing runs: what is known is in files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairsilo.cli import app
from fairsilo.errors import FairSiloError
from fairsilo.network.ops.demo import make_demo
from fairsilo.network.ops.runs import LAST
from fairsilo.network.ops.status import last_run, status
from fairsilo.network.ops.workspace import Workspace
from fairsilo.network.server import coordinate
from fairsilo.progress import PROGRESS, Progress, standing, time_left
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
    with pytest.raises(FairSiloError, match="no run was started from"):
        CliRunner().invoke(
            app, ["flower", "watch", "--folder", str(space.folder)], catch_exceptions=False
        )
    with pytest.raises(FairSiloError, match=r"has no progress\.jsonl: give the `out` of a run"):
        status(space, space.folder)


@pytest.mark.slow
def test_of_a_run_by_real_handlers(space: Workspace, tmp_path: Path) -> None:
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
    assert all(silo["fits"] and silo["fairsilo"] for silo in found["silos"])
    shown = CliRunner().invoke(app, command).output
    assert "it ends when training has converged" in shown
    progress.say({"event": "started", "pid": 2**22 + 1})
    assert status(space)["run"]["how"] == "interrupted"
    progress.say({"event": "finished", "notes": ["all went well"]})
    found = status(space)["run"]
    assert (found["how"], found["notes"]) == ("finished", ["all went well"])


def test_time_left_is_told_where_it_is_known() -> None:
    rounds = [{"event": "round", "round": k, "d": None, "seconds": 3.0} for k in (1, 2, 3)]
    told = [{**one, "loss": 0.5, "residual": 0.1, "time": 1.0} for one in rounds]
    planned = {"event": "posed", "about": {"rounds": 6}, "time": 0.0}
    assert time_left(standing(told)) is None
    assert time_left(standing([planned, *told])) == 12.0
