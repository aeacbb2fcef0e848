"""A run as the command sees it that started it: what ends well after all, who does not answer."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fairsilo.dp import Release
from fairsilo.errors import FairSiloError
from fairsilo.network.journal import Journal
from fairsilo.network.ops import control, follow, runs
from fairsilo.network.ops.runs import RunConfig, register, stop_run
from fairsilo.network.ops.workspace import Workspace
from fairsilo.progress import Progress, Tail, interruptions


def dead() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


class Server:
    """What the server's process leaves where it dies after its last word, or before it."""

    def __init__(self, config: RunConfig, *, model: bool, journal: bool) -> None:
        self.config, self.model, self.journal = config, model, journal
        self.starts = 0

    def submit(self, space: Workspace, config: RunConfig) -> str:
        self.starts += 1
        progress = Progress(config.progress, fresh=True)
        progress.say({"event": "submitting"})
        progress.say({"event": "started", "pid": dead()})
        if self.journal:
            Journal(config.out / follow.JOURNAL, "f" * 64, resume=False).note(
                [Release("counts", 1.0)]
            )
        if self.model:
            (config.out / "model.json").write_text("{}")
        return "1"


@pytest.mark.parametrize(
    ("model", "journal"), [(True, False), (False, False), (True, True)], ids=str
)
def test_a_run_whose_process_died_after_its_last_word_has_ended_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: bool, journal: bool
) -> None:
    config = RunConfig(out=tmp_path / "run", wait_lost=0.0, simulation=1)
    server = Server(config, model=model, journal=journal)
    monkeypatch.setattr(follow, "submit", server.submit)
    space = Workspace(tmp_path)
    if model and not journal:
        follow.run_and_follow(space, config, lambda event: None)
    else:
        with pytest.raises(follow.Interrupted, match="ended before the run did"):
            follow.run_and_follow(space, config, lambda event: None)
    assert server.starts == 1


def test_a_run_that_is_started_again_before_its_first_answer_keeps_its_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower's part is played: its process dies twice at the start, then it finishes."""
    config, space = (
        RunConfig(out=tmp_path / "run", wait_lost=60.0, simulation=1),
        Workspace(tmp_path),
    )
    Progress(config.progress, fresh=True).say({"event": "failed", "why": "of an earlier run"})
    lives, pasts = iter(["dies", "dies", "finishes"]), []

    def start_run(*_: object) -> str:
        pasts.append(interruptions(Tail(config.progress).read()))
        progress = Progress(config.progress)
        progress.say({"event": "started", "pid": dead()})
        if next(lives) == "finishes":
            progress.say({"event": "finished", "notes": []})
        return "1"

    monkeypatch.setattr(runs, "start_run", start_run)
    follow.run_and_follow(space, config, lambda event: None)
    assert [len(past) for past in pasts] == [0, 1, 2]
    assert pasts[2] == ["the server's process ended before the run did"] * 2


def test_whether_the_run_was_stopped_is_asked_of_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run, or an audit, that was started from the same folder is another matter."""
    config, space = RunConfig(out=tmp_path / "run", wait_lost=60.0), Workspace(tmp_path)
    server, asked = Server(config, model=False, journal=False), []

    def run_ended(space: Workspace, run: str) -> str:
        asked.append(run)
        return "stopped" if run == "1" else ""

    def submit(space: Workspace, config: RunConfig) -> str:
        (tmp_path / runs.LAST).write_text('{"run": "2"}')
        return server.submit(space, config)

    monkeypatch.setattr(follow, "submit", submit)
    monkeypatch.setattr(follow, "controlled", lambda space: True)
    monkeypatch.setattr(follow, "run_ended", run_ended)
    with pytest.raises(follow.Interrupted):
        follow.run_and_follow(space, config, lambda event: None)
    assert (asked, server.starts) == (["1"], 1)


def test_the_model_of_an_earlier_run_is_no_end_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(out=tmp_path, wait_lost=0.0, simulation=1, overwrite=True)
    (tmp_path / "model.json").write_text("{}")
    os.utime(tmp_path / "model.json", (1, 1))
    server = Server(config, model=False, journal=False)
    monkeypatch.setattr(follow, "submit", server.submit)
    with pytest.raises(follow.Interrupted):
        follow.run_and_follow(Workspace(tmp_path), config, lambda event: None)


def test_a_superlink_that_listens_and_does_not_answer_is_one_sentence(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "ANSWER", 0.2)
    space = Workspace(work)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        space.say_control(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(FairSiloError, match=r"bank's key was not registered: the .* answer"):
            register(space, 0.0)
        stop_run(space, "1")
