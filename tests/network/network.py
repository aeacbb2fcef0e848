"""One running federation that the process tests share: SuperLink, nodes, a proxy between them."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Plain
from fairsilo.network.engine import Network
from fairsilo.network.federation_file import FILE
from fairsilo.network.journal import Journal
from fairsilo.network.member import Member
from fairsilo.network.ops.certificates import CA, make_certificates
from fairsilo.network.ops.demo import make_demo
from fairsilo.network.ops.follow import run_and_follow
from fairsilo.network.ops.keys import make_key
from fairsilo.network.ops.launch import await_superlink, start_node, start_superlink
from fairsilo.network.ops.processes import Processes, free_ports, is_alive, processes
from fairsilo.network.ops.runs import PATIENCE, RunConfig, register
from fairsilo.network.ops.workspace import Workspace
from fairsilo.network.settings import read_settings
from fairsilo.network.silo import answer
from fairsilo.network.train import train_over
from fairsilo.network.transport import Fault, Traffic
from fairsilo.network.wire import Ask, Record, Reply
from fairsilo.progress import Event
from tests.network.proxy import Proxy, recording
from tests.network.silos import confirm

ROWS = 400
"""Of every silo."""
HOOK = """
import sys

if "fairsilo.network.ops.worker" in sys.orig_argv:
    import fairsilo.network.client as client
    honest = client.reply_to

    def reply_to(record, path, memory, run):
        import time
        from pathlib import Path
        import numpy as np
        how = Path(path).with_name("how.txt")
        kind, how = how.read_text().split() if how.exists() else ("nothing", "honest")
        reply = honest(record, path, memory, run)
        if kind not in (record.get("kind", record.get("ask.kind")), str(record.get("number"))):
            return reply
        if how == "nan":
            vector = np.frombuffer(reply["vector"], "<f8")
            reply["vector"] = (vector * np.nan).tobytes()
        if how == "oversized":
            reply["vector"] = np.ones(2_500_000).tobytes()
        if how == "round":
            reply["number"] += 1
        if how == "silent":
            asked, answer = (Path(path).with_name(name) for name in ("asked", "answer"))
            asked.touch()
            while not answer.exists():
                time.sleep(0.05)
            # For this answer alone.
            answer.unlink()
        return reply

    client.reply_to = reply_to

if "fairsilo.network.ops.node" in sys.orig_argv:
    from pathlib import Path
    import fairsilo.network.ops.internals as internals

    if Path("changed").exists():
        # As if Flower's loop slept otherwise: nothing of the node is shortened.
        internals.SLEEPS["start_client_internal"] = ["4"]
"""
"""Python runs it at the start of a silo's processes. With a file `changed` in the silo's folder the
node finds another Flower than it knows; by a how.txt the worker misbehaves at the questions of a
kind, or at one by its number. It takes the silo's own hand, since no app that is sent is run any
more."""
PATIENT = 300.0
"""Seconds until a test gives up waiting for what must come, on the slowest machine."""


@dataclass
class Net:
    """The folder, its processes, and the proxy with the silos' messages."""

    space: Workspace
    group: Processes
    proxy: Proxy
    all: tuple[Member, ...] = ()
    """All silos that have a key; the federation file may name fewer."""
    pace: float = 15.0
    """Seconds that an exchange takes on this machine, measured in the first run."""

    def __post_init__(self) -> None:
        self.all = self.space.agreed.silos

    @property
    def patience(self) -> float:
        """The timeout in seconds for answers while another silo stays silent: so long that nobody
        else is late. The silent one costs a test all of it."""
        return round(max(40.0, 4 * self.pace))

    def agree(self, **changes: Any) -> None:
        """Write a new federation file for all; nodes read theirs again for every message."""
        agreed = self.space.agreed.model_copy(update=changes)
        self.space.federation.write_text(agreed.text)
        for name in agreed.names:
            (self.space.silo(name) / FILE).write_text(agreed.text)
            confirm(self.space.silo(name) / "silo.toml")

    def start(self, name: str, *more: str) -> None:
        """Start a node, which reaches the SuperLink through the proxy."""
        start_node(self.space, name, free_ports(1)[0], self.group, self.proxy.address, more)

    def worker(self, name: str) -> int:
        """The number of the process that answers for a silo."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (process / "cmdline").read_bytes()
                here = (process / "cwd").readlink() == self.space.silo(name)
                if here and b"fairsilo.network.ops.worker" in line and is_alive(int(process.name)):
                    return int(process.name)
        return 0

    def hold(self, name: str, question: str) -> None:
        """Let a silo answer a question, a kind or a number, when it is released and not before."""
        (self.space.silo(name) / "asked").unlink(missing_ok=True)
        (self.space.silo(name) / "how.txt").write_text(f"{question} silent")

    def await_held(self, name: str) -> None:
        """Until it has that question, and holds its answer."""
        wait_until((self.space.silo(name) / "asked").exists)

    def release(self, name: str, for_good: bool = True) -> None:
        """Let it answer, now; where not for good, the same question is held when it comes again."""
        own = self.space.silo(name)
        (own / "asked").unlink()
        if for_good:
            (own / "how.txt").unlink()
        (own / "answer").touch()
        wait_until(lambda: not (own / "answer").exists())

    def stop(self, name: str) -> None:
        """End a node with time to say goodbye: the SuperLink lets one that was killed come back
        after a minute only."""
        self.group.running[name].terminate()
        self.group.running[name].wait(30)
        self.group.kill(name)

    def start_all(self) -> None:
        """Start the nodes that are not running of all silos in the federation file."""
        for name in self.space.agreed.names:
            if not self.group.alive(name):
                self.start(name)

    def start_stranger(self, name: str) -> None:
        """Start an unknown node, with the settings of silo-1 but another key or CA."""
        own = self.space.silo(name)
        ignored = shutil.ignore_patterns("*.key*", ".flwr")
        shutil.copytree(self.space.silo("silo-1"), own, ignore=ignored)
        make_key(own / "node.key", name)
        if name == "other-ca":
            (own / CA).unlink()
            make_certificates(own / "other", "127.0.0.1")
            shutil.copy(own / "other" / CA, own / CA)
        self.start(name)

    def run(
        self, out: Path, watch: Callable[[Event], None] = lambda event: None, **how: Any
    ) -> None:
        """`fairsilo flower run`, retried until the SuperLink is up; nobody who is lost is waited
        for unless `how` says so."""
        for _ in range(60):
            try:
                config = RunConfig(**{"out": out, "wait": PATIENT, "wait_lost": 0.0, **how})
                run_and_follow(self.space, config, watch)
            except FairSiloError as error:
                if "did not start" not in str(error):
                    raise
                time.sleep(1)
            else:
                return
        pytest.fail("the SuperLink did not come up")


@contextmanager
def federation(folder: Path, silos: int) -> Iterator[Net]:
    """SuperLink, proxy and registered silos that allow answers in the clear; no nodes yet."""
    space = make_demo(folder / "work", silos, rows=ROWS * silos, rounds=2)
    for name in space.agreed.names:
        settings = space.silo(name) / "silo.toml"
        settings.write_text(settings.read_text().replace("plain = false", "plain = true"))
    with (
        pytest.MonkeyPatch.context() as patch,
        recording(space) as proxy,
        processes(folder / "logs") as group,
    ):
        (folder / "hook").mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(HOOK)
        paths = [str(folder / "hook"), os.environ.get("PYTHONPATH", "")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        start_superlink(space, group)
        await_superlink(space, group)
        register(space, PATIENCE)
        yield Net(space, group, proxy)
    assert not [line for line in command_lines() if str(folder) in line]


def metrics_of(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "metrics.json").read_text())
    return found


def wait_for(log: Callable[[], str], text: str) -> None:
    deadline = time.monotonic() + PATIENT
    while text not in log():
        assert time.monotonic() < deadline, f"{text!r} never came in:\n{log()[-2000:]}"
        time.sleep(0.2)


def wait_until(done: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENT
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@dataclass
class OpenPost:
    """Silos in this process that answer in the clear, ignoring the federation file."""

    space: Workspace
    vectors: list[npt.NDArray[np.float64]] = field(default_factory=list)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)

    def present(self) -> tuple[str, ...]:
        return self.space.agreed.names

    def exchange(self, letters: Mapping[str, Record], timeout: float) -> dict[str, Record | Fault]:
        answers: dict[str, Record | Fault] = {}
        for name, record in letters.items():
            ask, memory = Ask.from_record(record), self.memories.setdefault(name, {})
            settings = read_settings(self.space.silo(name) / "silo.toml")
            self.vectors.append(answer(settings, self.space.agreed, ask, memory))
            answers[name] = Reply(ask.number, ask.kind, self.vectors[-1]).to_record()
        return answers


def vectors_of(space: Workspace, folder: Path) -> npt.NDArray[np.float64]:
    """Every number that a silo computes in a run without faults, by repeating it here."""
    post, agreed = OpenPost(space), space.agreed
    journal = Journal(folder / "journal", agreed.fingerprint, False)
    engine = Network(agreed, Plain(post, 1.0), journal, post.present(), lambda event: None)
    train_over(agreed, engine)
    return np.concatenate(post.vectors)


def command_lines() -> list[str]:
    """The command lines of all processes of this machine."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines
