"""`fairsilo train --watch`: the page is there while training goes, and until Control-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.progress import PROGRESS, Tail, standing
from tests.cli.test_train import OWN

HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "


@pytest.mark.process
@pytest.mark.slow
def test_a_training_is_watched_until_control_c(loans: pd.DataFrame, tmp_path: Path) -> None:
    code = f"{HEED}from fairsilo.cli import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, *OWN, "--watch"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert child.stdout is not None
    try:
        found = re.match(r"(http://127\.0\.0\.1:\d+/) shows this training", child.stdout.readline())
        assert found is not None
        with urllib.request.urlopen(found[1]) as page:
            assert b"FairSilo" in page.read()
        for line in child.stdout:
            if "the page stays until Control-C" in line:
                break
        with urllib.request.urlopen(f"{found[1]}events") as events:
            first = json.loads(events.readline().removeprefix(b"data: "))
        assert "Finished" in first["h1"]
        assert "Open the report" in first["#head"]
        with urllib.request.urlopen(f"{found[1]}report.html") as report:
            assert b"How training went" in report.read()
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=120) == 0
    finally:
        child.kill()
        child.stdout.close()
    state = standing(Tail(tmp_path / "run" / PROGRESS).read())
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert state["end"] == {"how": "finished", "why": ""}
    assert state["rounds"][-1]["round"] == metrics["rounds"]
