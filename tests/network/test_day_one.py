"""The page on operating a federation, followed to the letter with real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairsilo.network.federation_file import read_federation_file
from fairsilo.network.ops.processes import free_ports
from tests.docs.pages import Step, namespace, run, steps
from tests.network.network import command_lines, wait_for

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]
PAGE = (Path(__file__).parents[2] / "docs" / "operating.md").read_text()
# Tests started in the background by a shell ignore Control-C, and so would their children.
HEED = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execvp('sh', sys.argv[1:])"
)


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def lines(title: str) -> list[str]:
    """The lines of a section's shell blocks, without their remarks."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", section(title), re.MULTILINE | re.DOTALL)
    return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]


def test_day_one_as_the_page_says_and_control_c_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    names = namespace()
    before, _, _ = PAGE.partition("## Start\n")
    # The page's own port may be taken here.
    elsewhere = f"--port {free_ports(1)[0]} --folder work"
    for step in steps(before.replace("init --folder work", f"init {elsewhere}")):
        run(step, names)
    agreed = read_federation_file(Path("work/federation.json"))
    _, yes = lines("Day one")
    mark = agreed.fingerprint[:8]
    for party in agreed.parties:
        # What the page shows at one silo, every party does.
        monkeypatch.chdir(tmp_path / "at" / party.name)
        for line in ("fairsilo flower confirm --all", yes.replace("3f2a91c0", mark)):
            assert not run(Step("console", line, None), names).startswith("fairsilo: ")
    monkeypatch.chdir(tmp_path)
    staying: list[subprocess.Popen[bytes]] = []
    try:
        for line in lines("Start"):
            if "register" in line:
                wait_for(lambda: Path("0.log").read_text(), "control:")
                sh(line)
                continue
            with Path(f"{len(staying)}.log").open("w") as log:
                arguments = [sys.executable, "-c", HEED, "sh", "-c", line]
                staying.append(
                    subprocess.Popen(arguments, stdout=log, stderr=log, start_new_session=True)
                )
        for line in lines("Run and watch"):
            sh(line)
    finally:
        for child in staying:
            # As a terminal does.
            os.killpg(child.pid, signal.SIGINT)
        ended = [child.wait(timeout=60) for child in staying]
    metrics = json.loads(Path("runs/first/metrics.json").read_text())
    assert metrics["clients"] == 4
    assert metrics["network"]["secure_aggregation"]
    assert Path("runs/first/audit.json").exists()
    assert len(ended) == 6
    deadline = time.monotonic() + 20
    while left := [line for line in command_lines() if str(tmp_path) in line]:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def sh(line: str) -> None:
    """Run a line of the page; what it says if it fails."""
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
