"""The pages for operators, followed to the letter with real processes, section by section."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pytest

from fairsilo.network.federation_file import read_federation_file
from fairsilo.network.ops.control import nodes
from fairsilo.network.ops.processes import free_ports
from fairsilo.network.ops.workspace import Workspace
from tests.docs.pages import Step, matches, namespace, run, section, shown, steps
from tests.network.network import PATIENT, command_lines, metrics_of, wait_for, wait_until

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]
DOCS = Path(__file__).parents[2] / "docs"
FOLLOWED = ("operating.md", "operating-silo.md", "leaving.md")
"""Pages of which every command is run here."""
OPERATING, SILO, LEAVING = ((DOCS / page).read_text() for page in FOLLOWED)
# Tests started in the background by a shell ignore Control-C, and so would their children.
HEED = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execvp('sh', sys.argv[1:])"
)


def lines(title: str) -> list[str]:
    """The lines of a section's shell blocks, without their remarks."""
    text = section(OPERATING, title)
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]


@dataclass
class Day:
    """The parties' folders, as the page has them, and what runs there."""

    folder: Path
    names: dict[str, Any] = field(default_factory=namespace)
    staying: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def follow(self, text: str) -> None:
        """Do what a text shows with a `$`, and compare what is printed."""
        for step in steps(text):
            printed = run(step, self.names)
            if step.kind == "console" and step.shown is not None:
                assert matches(step.shown, printed), f"{step.source}\nprints\n{printed}"

    def say(self, line: str, place: str = ".", **instead: str) -> str:
        """Run a command of a page at a place; what it prints. `instead`: of what the page has."""
        self.done.add(line)
        for old, new in instead.items():
            line = line.replace(old.lstrip("_"), new)
        with pytest.MonkeyPatch.context() as here:
            here.chdir(self.folder / place)
            printed = run(Step("console", line, None), self.names)
        assert not printed.startswith("fairsilo: "), f"{line}\n{printed}"
        return printed

    def sh(self, line: str) -> None:
        """Run a line in a process; what it says if it fails."""
        self.done.add(line)
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def start(self, name: str, line: str) -> None:
        """Run a line that stays until Control-C."""
        self.done.add(line)
        with Path(f"{name}.log").open("a") as log:
            self.staying[name] = subprocess.Popen(
                [sys.executable, "-c", HEED, "sh", "-c", line],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def end(self, *names: str) -> None:
        """As a terminal does."""
        for name in names:
            os.killpg(self.staying[name].pid, signal.SIGINT)
        for name in names:
            self.staying.pop(name).wait(timeout=PATIENT)

    def log(self, name: str) -> str:
        return Path(f"{name}.log").read_text()

    def agree(self) -> None:
        """Everybody gets the federation file and says yes to it."""
        agreed = read_federation_file(Path("work/federation.json"))
        for party in agreed.parties:
            own = Path("at") / party.name
            shutil.copy(Path("work/silos") / party.name / "federation.json", own)
            self.say("fairsilo flower confirm --all", str(own))
            yes = lines("Day one")[1]
            self.say(yes, str(own), _3f2a91c0=agreed.fingerprint[:8])

    def grow(self) -> None:
        """All tables have new rows."""
        for path in Path("at").glob("*/table.csv"):
            rows = pd.read_csv(path)
            pd.concat([rows, rows.sample(60, random_state=len(rows))]).to_csv(path, index=False)

    def await_node(self, name: str) -> None:
        """Until a silo is connected."""
        deadline = time.monotonic() + PATIENT
        while not (found := nodes(Workspace(Path("work"))).get(name)) or not found.online:
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.2)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    """Everything up to the section Start: keys, agreement, confirmations; and its lines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("day"))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        patch.setenv("PATH", path)
        patch.setenv("COLUMNS", "80")
        found = Day(Path.cwd())
        before, _, _ = OPERATING.partition("## Start\n")
        # The page's own port may be taken here.
        elsewhere = f"--port {free_ports(1)[0]} --folder work"
        found.follow(before.replace("init --folder work", f"init {elsewhere}"))
        found.agree()
        found.say(lines("Day one")[0], "at/bank")
        try:
            for line in lines("Start"):
                if "register" in line:
                    wait_for(lambda: found.log("work"), "control:")
                    found.sh(line)
                else:
                    found.start(re.findall(r"^cd (?:at/)?(\w+)", line)[0], line)
            # A run would begin without those who are later than `--wait`.
            for party in read_federation_file(Path("work/federation.json")).parties:
                found.await_node(party.name)
            yield found
        finally:
            found.end(*found.staying)


DONE: list[str] = []
"""The steps of the day so far."""


@pytest.fixture(autouse=True)
def in_order(request: pytest.FixtureRequest) -> None:
    """Skip a step of the day before which another was left out, as `-k` and `--lf` do."""
    steps = [name for name in vars(request.module) if name.startswith("test_")]
    if steps[: len(DONE) + 1] != [*DONE, request.node.name]:
        pytest.skip("needs the day's first steps: run the whole file")
    DONE.append(request.node.name)


def test_the_first_run_is_seen_and_audited(day: Day) -> None:
    for line in lines("Run and watch"):
        if "watch" in line:
            day.start("watch", line)
            wait_for(lambda: day.log("watch"), "http://")
            address = re.findall(r"http://\S+", day.log("watch"))[0]
            assert "<html" in httpx.get(address, timeout=PATIENT).text
            day.end("watch")
        elif "status" in line:
            told = day.say(line)
            assert all(name in told for name in ("bank", "clinic", "shop", "farm", "auditor"))
        else:
            day.sh(line)
    metrics = metrics_of(Path("runs/first"))
    assert metrics["clients"] == 4
    assert metrics["network"]["secure_aggregation"]
    assert Path("runs/first/audit.json").exists()


def test_what_an_owner_sees(day: Day) -> None:
    """The silo's page, at the bank."""
    agreed = read_federation_file(Path("work/federation.json"))
    number = json.loads(Path("work/last-run.json").read_text())["run"]
    real = {"_3f2a91c07be4d518": agreed.fingerprint[:16], "_8472639102837465921": number}
    told = {line: day.say(line, "at/bank", **real) for line in shown(SILO)}
    assert "300 rows fit the federation file" in told["fairsilo flower check"]
    (left,) = (text for line, text in told.items() if "--json" in line)
    assert {one["run"] for one in json.loads(left)} == {number}
    assert "<html" in (day.folder / "at/bank/left.html").read_text()


def test_a_backup_and_a_new_key(day: Day, monkeypatch: pytest.MonkeyPatch) -> None:
    day.follow(section(OPERATING, "Backup"))
    monkeypatch.setenv("FAIRSILO_KEY_PASSPHRASE", "correct horse")
    Path("at/locked").mkdir()
    (locked,) = shown(section(OPERATING, "Keys"))
    day.say(locked, "at/locked")
    assert "ENCRYPTED" in Path("at/locked/node.key").read_text()
    monkeypatch.delenv("FAIRSILO_KEY_PASSPHRASE")
    before, between, after = section(OPERATING, "Keys").partition("(`./register-silos.sh`)")
    assert between
    day.follow(before)
    day.sh("cd work; ./register-silos.sh")
    wait_for(lambda: day.log("bank"), "the SuperLink does not know this silo's key")
    day.follow(after)
    day.end("bank")
    day.start("bank", "cd at/bank; ./start-silo.sh")
    day.await_node("bank")


def test_a_new_certificate(day: Day) -> None:
    """The SuperLink that runs keeps the one that it read."""
    day.follow(section(OPERATING, "Certificates"))
    assert set(nodes(Workspace(Path("work")))) >= {"bank", "clinic", "shop", "farm"}


def test_a_silo_joins_and_leaves_and_is_refused_from_then_on(day: Day) -> None:
    day.follow(section(OPERATING, "A silo joins"))
    day.sh("cd work; ./register-silos.sh")
    for path in Path("work/silos/mill").iterdir():
        if path.is_file():
            shutil.copy(path, "at/mill")
    shutil.copy("at/farm/table.csv", "at/mill")
    day.start("mill", "cd at/mill; ./start-silo.sh")
    day.await_node("mill")
    assert "does not know" not in day.log("mill")
    day.follow(section(OPERATING, "A silo leaves"))
    wait_for(lambda: day.log("mill"), "the SuperLink does not know this silo's key")
    assert "mill" not in nodes(Workspace(Path("work")))
    day.end("mill")


def test_new_rows_and_training_again_without_a_silo(day: Day) -> None:
    """Without the witness, who does not know the model from which the second run starts."""
    day.say("fairsilo flower remove auditor --folder work")
    day.end("auditor")
    day.grow()
    day.agree()
    (again,) = shown(section(OPERATING, "New rows"))
    day.sh(again)
    first, second = (metrics_of(Path("runs") / name) for name in ("first", "second"))
    assert second["clients"] == 4
    assert second["rounds"] < first["rounds"]
    remove, train = shown(LEAVING)
    day.say(remove)
    day.end("shop")
    day.grow()
    day.agree()
    day.sh(train)
    assert metrics_of(Path("runs/without-shop"))["clients"] == 3


def test_control_c_leaves_nothing_running_and_nothing_was_left_out(day: Day) -> None:
    assert len(day.staying) == 4
    day.end(*day.staying)
    wait_until(lambda: not [line for line in command_lines() if str(day.folder) in line])
    every = {line for page in (OPERATING, SILO, LEAVING) for line in shown(page)}
    assert every - day.done == set()
