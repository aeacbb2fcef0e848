"""Faults that end nothing, and those that are named: real handlers in one process.

Every run that goes on must end with exactly the model of one without the fault.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fairsilo.dp import Release
from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Patience
from fairsilo.network.federation_file import FILE
from fairsilo.network.journal import Journal
from fairsilo.network.ops.bundle import code_digest
from fairsilo.network.ops.follow import JOURNAL, Interrupted, check_folder, follow
from fairsilo.network.ops.keys import make_key
from fairsilo.network.ops.runs import RunConfig
from fairsilo.network.ops.workspace import Workspace
from fairsilo.network.server import coordinate, ending
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Record
from fairsilo.progress import (
    AUDIT_PROGRESS,
    PROGRESS,
    Progress,
    Tail,
    interruptions,
    locked,
    standing,
)
from fairsilo.run import Run, load
from fairsilo.solver import Status
from tests.network.silos import TownTransport, make_town, train

CONFIG = {
    "wait": 0.0, "wait_lost": 600.0, "timeout": 1.0, "audit": "", "columns": "", "resume": False,
    "baseline": False, "introduce": False, "start_from": "",
}  # fmt: skip


class Leaving:
    """A silo that is gone from one exchange on, until somebody waited for it twice."""

    def __init__(self, post: TownTransport, at: int, forgets: bool) -> None:
        self.post, self.at, self.forgets, self.waits = post, at, forgets, 0
        post.change = self.change

    def change(self, name: str, exchange: int, record: Record) -> Record | Fault | None:
        if exchange == self.at and name == "silo1":
            self.post.absent = ("silo1",)
            return Fault("is no longer connected", gone=True)
        return None

    def sleep(self, seconds: float) -> None:
        self.waits += 1
        if self.waits == 2:
            self.post.absent = ()
            if self.forgets:
                self.post.memories.pop("silo1")


@pytest.mark.slow
@pytest.mark.parametrize("forgets", [False, True], ids=["paused", "restarted"])
@pytest.mark.parametrize(("secure", "at"), [(False, 1), (False, 4), (True, 3), (True, 9)])
def test_a_lost_silo_is_waited_for(tmp_path: Path, secure: bool, at: int, forgets: bool) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=secure, rounds=4)
    post = TownTransport(town)
    leaving = Leaving(post, at, forgets)
    patience = Patience(600.0, sleep=leaving.sleep)
    run, events = train(town, post, tmp_path / "journal", patience=patience)
    assert leaving.waits == 2
    undisturbed, _ = train(town, TownTransport(town, run="2"), tmp_path / "other")
    assert same(run, undisturbed)
    assert run.client_names == town.agreed.names
    kinds = [event["event"] for event in events]
    assert (kinds.count("missing"), kinds.count("back"), kinds.count("lost")) == (1, 1, 0)
    (note,) = run.metrics["notes"]
    assert note.startswith("silo silo1 was lost for 0 s (")
    assert note.endswith("and came back: the run waited for it")


@pytest.mark.slow
def test_a_silo_that_was_started_anew_has_its_multipliers(tmp_path: Path) -> None:
    """LCO's live in the silos, on their disks."""
    town = make_town(tmp_path / "town", method="lco")
    post = TownTransport(town)
    leaving = Leaving(post, 31, forgets=True)
    patience = Patience(600.0, sleep=leaving.sleep)
    run, events = train(town, post, tmp_path / "journal", patience=patience)
    (missing,) = [event for event in events if event["event"] == "missing"]
    assert missing["silos"] == {"silo1": "is not connected"}
    assert run.trained.outcome.status is Status.CONVERGED
    assert same(run, train(town, TownTransport(town, run="2"), tmp_path / "other")[0])


@pytest.mark.parametrize("secure", [False, True])
def test_a_silo_that_stays_away_is_left_out_or_ends_the_run_as_before(
    tmp_path: Path, secure: bool
) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=secure, rounds=3)
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += 100.0

    post = TownTransport(town)
    Leaving(post, 9 if secure else 4, False)
    patience = Patience(600.0, clock=lambda: now, sleep=sleep)
    if secure:
        with pytest.raises(FairSiloError, match="use `resume` when it is back"):
            train(town, post, tmp_path / "journal", patience=patience)
        return
    run, _ = train(town, post, tmp_path / "journal", patience=patience)
    assert run.client_names == ("silo0", "silo2", "silo3")
    assert now == 600.0


def test_a_wrong_answer_is_not_waited_for(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", secure_aggregation=False, rounds=2)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        return {**record, "number": 99} if name == "silo1" and exchange == 3 else None

    def sleep(seconds: float) -> None:
        pytest.fail("it would answer wrongly again")

    run, _ = train(
        town, TownTransport(town, change), tmp_path / "journal", patience=Patience(9.0, sleep=sleep)
    )
    assert run.client_names == ("silo0", "silo2", "silo3")


@pytest.mark.slow
def test_more_silos_lost_than_the_masks_bear_are_waited_for(tmp_path: Path) -> None:
    """Also between masking and opening, where their shares are missing."""
    town = make_town(tmp_path / "town", rounds=2)
    post = TownTransport(town)
    lost = ("silo0", "silo1", "silo2")

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        # The fourth and fifth sign the first list, the tenth shows shares, the next makes new keys.
        return Fault("is gone", gone=True) if exchange in (4, 5, 10, 11) and name in lost else None

    post.change = change
    run, events = train(town, post, tmp_path / "journal", patience=Patience(60.0))
    assert [event["event"] for event in events].count("missing") == 3
    undisturbed, _ = train(town, TownTransport(town, run="2"), tmp_path / "other")
    assert same(run, undisturbed)


@pytest.mark.slow
def test_an_edited_federation_file_is_named_where_it_is(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=1)
    path = town.folder / "silo2" / FILE
    edited = town.agreed.model_copy(update={"epsilon": 0.5})
    path.write_text(edited.text)
    post = TownTransport(town)
    said: list[dict[str, Any]] = []
    with pytest.raises(FairSiloError, match=r"^nothing was asked yet: silo silo2 has another") as e:
        coordinate(town.agreed, post, "1", CONFIG, tmp_path / "out", said.append)
    assert "silo0" not in str(e.value)
    assert edited.fingerprint[:4] in str(e.value)
    assert post.traffic.exchanges == 1
    assert not any(post.memories.values())
    assert [one["silo"] for one in said if one["event"] == "silo" and not one["fits"]] == ["silo2"]
    path.write_text(town.agreed.text)
    coordinate(town.agreed, post, "1", CONFIG, tmp_path / "out", said.append)
    assert load(tmp_path / "out").metrics["clients"] == 4
    fits = [one for one in said if one["event"] == "silo"][-4:]
    assert all(one["fits"] and one["code"] == code_digest() for one in fits)


@pytest.mark.parametrize("other", [{"fairsilo": "0.0.1"}, {"code": "f00"}])
def test_another_version_or_code_is_named_before_anything_is_asked(
    other: dict[str, str], tmp_path: Path
) -> None:
    """An app of another version a silo's worker refuses by itself; this is what the server says."""
    town = make_town(tmp_path / "town", rounds=1)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        about = json.loads(bytes(record["content"]))
        return (
            {**record, "content": json.dumps(about | other).encode()} if name == "silo1" else None
        )

    post = TownTransport(town, change)
    with pytest.raises(FairSiloError, match="nothing was asked yet: silo silo1 has fairsilo") as e:
        coordinate(town.agreed, post, "1", CONFIG, tmp_path / "out", lambda event: None)
    assert next(iter(other.values())) in str(e.value)
    assert "install the same everywhere" in str(e.value)
    assert post.traffic.exchanges == 1


def test_what_is_wrong_with_several_silos_is_said_once(tmp_path: Path) -> None:
    """Where the coordinator was upgraded and nobody else was."""
    town = make_town(tmp_path / "town", rounds=1)

    def change(name: str, exchange: int, record: Record) -> Record | Fault | None:
        about = json.loads(bytes(record["content"])) | {"fairsilo": "0.0.1"}
        return None if name == "silo2" else {**record, "content": json.dumps(about).encode()}

    told = r"^nothing was asked yet: silos silo0, silo1, silo3: each has fairsilo 0\.0\.1 [^;]*$"
    post = TownTransport(town, change)
    with pytest.raises(FairSiloError, match=told):
        coordinate(town.agreed, post, "1", CONFIG, tmp_path / "out", lambda event: None)


@pytest.mark.slow
def test_an_edited_file_after_an_earlier_run_comes_before_the_refusals_it_causes(
    tmp_path: Path,
) -> None:
    """Without introductions: the others refuse a sum over one silo less, which is not the cause."""
    town = make_town(tmp_path / "town", rounds=1)
    train(town, TownTransport(town), tmp_path / "first")
    edited = town.agreed.model_copy(update={"epsilon": 0.5})
    (town.folder / "silo2" / FILE).write_text(edited.text)
    with pytest.raises(
        FairSiloError, match=r"^silo silo2 refused: the server's federation file .*silo0 refused: A"
    ):
        train(town, TownTransport(town, run="2"), tmp_path / "second")


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("key", "silo silo1 signs with another key than the federation file has for it"),
        ("name", "silo silo1 calls itself 'silo0' in its settings"),
        ("file", "silo silo1 cannot read its settings, federation file or key"),
    ],
)
def test_what_else_does_not_fit_is_named(tmp_path: Path, how: str, told: str) -> None:
    town = make_town(tmp_path / "town", rounds=1)
    settings = town.settings("silo1")
    if how == "key":
        (town.folder / "silo1" / "node.key").unlink()
        make_key(town.folder / "silo1" / "node.key", "silo1")
    if how == "name":
        settings.write_text(settings.read_text().replace('"silo1"', '"silo0"'))
    if how == "file":
        (town.folder / "silo1" / FILE).write_text("{")
    with pytest.raises(FairSiloError, match=told):
        coordinate(town.agreed, TownTransport(town), "1", CONFIG, tmp_path, lambda event: None)


@pytest.mark.slow
def test_a_full_disk_says_what_to_do_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    town = make_town(tmp_path / "town", rounds=3)
    out, left = tmp_path / "out", 4
    whole = os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal left
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        left -= ".safetensors" in name
        if left <= 0 and str(out) in name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(FairSiloError) as error:
            coordinate(town.agreed, TownTransport(town), "1", CONFIG, out, lambda event: None)
    why = f"the disk that holds {out} is full: free space, then `resume`"
    assert ending(error.value, out) == {"event": "failed", "why": why}
    resumed = {**CONFIG, "resume": True}
    post = TownTransport(town, run="2")
    coordinate(town.agreed, post, "2", resumed, out, lambda event: None, [why])
    undisturbed, _ = train(town, TownTransport(town, run="3"), tmp_path / "other")
    saved = load(out)
    assert (theta_of(saved) == undisturbed.trained.outcome.theta).all()
    (note,) = saved.metrics["notes"]
    assert note.startswith(f"the run was interrupted after question 3 ({why}) and resumed at 20")


@pytest.mark.slow
def test_an_interruption_before_the_first_answer_is_in_the_notes(tmp_path: Path) -> None:
    town, out = make_town(tmp_path / "town", rounds=2), tmp_path / "out"
    coordinate(town.agreed, TownTransport(town), "1", CONFIG, out, lambda event: None, ["it fell"])
    (note,) = load(out).metrics["notes"]
    assert note == "the run was interrupted before it had an answer (it fell) and begun anew"


def test_why_a_run_was_interrupted_is_in_its_lines() -> None:
    def told(*events: str) -> list[str]:
        lines = [{"event": event.split()[0], "why": event} for event in events]
        return interruptions([{**one, "resume": one["why"].endswith("again")} for one in lines])

    silent = "the server's process ended"
    begun = ("submitting", "submitted", "started")
    assert told() == told("submitting") == told("submitting", "submitted") == []
    assert told(*begun, "submitting again") == [silent]
    assert told(*begun, "interrupted 1", "submitting again") == ["interrupted 1"]
    # It never came up; then its process died and nobody was there; then its operator ended it.
    ends = (
        *("submitting", "interrupted 1", "submitting again", "started", "submitting again"),
        *("started", "interrupted", "stopped 3", "submitting again"),
    )
    assert told(*ends) == ["interrupted 1", silent, "stopped 3"]
    assert told(*ends, "started", "submitting") == []


def test_a_progress_file_on_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / PROGRESS).symlink_to("/dev/full")
    with pytest.raises(FairSiloError, match=r"is full: free space, then `resume`"):
        Progress(tmp_path / PROGRESS).say({"event": "started"})


def test_where_the_server_ended_for_want_of_space_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space, nobody = Workspace(tmp_path), 2**22 + 1
    Progress(tmp_path / PROGRESS).say({"event": "started", "pid": nobody})
    with pytest.raises(Interrupted, match="ended before the run did: use `resume`"):
        follow(space, "1", tmp_path, lambda event: None)
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(FairSiloError, match="is full: free space, then `resume`"):
        follow(space, "1", tmp_path, lambda event: None)


def test_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    with (
        locked(tmp_path, "server"),
        pytest.raises(FairSiloError, match=rf"another run is at work .* \(process {os.getpid()}\)"),
    ):
        check_folder(RunConfig(out=tmp_path))
    check_folder(RunConfig(out=tmp_path))


def test_a_finished_run_is_replaced_only_on_purpose(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(FairSiloError, match="has a finished run: give another `out`, or `over"):
        check_folder(RunConfig(out=tmp_path))
    for how in ({"overwrite": True}, {"resume": True}, {"audit": tmp_path}):
        check_folder(RunConfig(out=tmp_path, **how))


def test_an_interrupted_run_is_thrown_away_only_on_purpose(tmp_path: Path) -> None:
    journal = Journal(tmp_path / JOURNAL, "f" * 64, resume=False)
    # Nothing was asked yet.
    check_folder(RunConfig(out=tmp_path))
    journal.note([Release("counts", 1.0)])
    with pytest.raises(FairSiloError, match=r"interrupted run: use `resume` .* or `overwrite`"):
        check_folder(RunConfig(out=tmp_path))
    for how in ({"overwrite": True}, {"resume": True}, {"introduce": True}, {"audit": tmp_path}):
        check_folder(RunConfig(out=tmp_path, **how))


def test_an_audit_leaves_the_progress_of_the_training(tmp_path: Path) -> None:
    assert RunConfig(out=tmp_path).progress == tmp_path / PROGRESS
    assert RunConfig(out=tmp_path, audit=tmp_path).progress == tmp_path / AUDIT_PROGRESS


@pytest.mark.slow
def test_how_a_run_stands_is_read_from_its_lines(tmp_path: Path) -> None:
    town = make_town(tmp_path / "town", rounds=3)
    progress = Progress(tmp_path / PROGRESS, fresh=True)
    progress.say({"event": "submitting", "phase": "start"})
    progress.say({"event": "started", "pid": os.getpid(), "silos": town.agreed.names})
    coordinate(town.agreed, TownTransport(town), "1", CONFIG, tmp_path / "out", progress.say)
    with (tmp_path / PROGRESS).open("a") as stream:
        stream.write('{"event": "round", "rou')
    tail = Tail(tmp_path / PROGRESS)
    state = standing(tail.read())
    assert tail.read() == []
    assert [one["round"] for one in state["rounds"]] == [1, 2, 3]
    assert list(state["phases"]) == ["start", "connect", "set-up", "rounds", "evaluation"]
    assert {one["state"] for one in state["silos"].values()} == {"answered"}
    assert all(one["fits"] for one in state["silos"].values())
    metrics = load(tmp_path / "out").metrics
    assert state["bytes"] == [metrics["bytes_up"], metrics["bytes_down"]]
    assert state["rounds"][-1]["d"] == max(map(abs, state["rounds"][-1]["gaps"]))
    assert len(state["about"]["constraints"]) == len(state["rounds"][-1]["multipliers"])
    json.dumps(state)


def same(one: Run, other: Run) -> bool:
    return bool((one.trained.outcome.theta == other.trained.outcome.theta).all())


def theta_of(saved: Any) -> np.ndarray:
    theta: np.ndarray = saved.predictors[0].theta
    return theta
