"""Each of the two installs into an empty environment, and trains there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from fairsilo import __version__

pytestmark = [pytest.mark.long, pytest.mark.process]


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_installs_and_trains(built: Path, tmp_path: Path, pattern: str) -> None:
    place = tmp_path / "environment"
    venv.create(place, with_pip=True)
    programs = place / ("Scripts" if os.name == "nt" else "bin")
    # Nothing of this source, nor of the environment that runs the tests.
    mine = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "XLA_FLAGS", "FAIRSILO_DATA")
    env = {k: v for k, v in os.environ.items() if k not in mine}

    def run(program: str, *args: str) -> str:
        done = subprocess.run(
            [programs / program, *args],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (file,) = built.glob(pattern)
    run("python", "-m", "pip", "install", "--quiet", str(file))
    run("python", "-m", "pip", "check")
    where = run("python", "-c", "import fairsilo; print(fairsilo.__file__)")
    assert Path(where.strip()).is_relative_to(place)
    assert run("fairsilo", "--version") == f"fairsilo {__version__}\n"
    assert "train" in run("fairsilo", "--help")
    run("fairsilo", "train", "--data", "adult", "--epsilon", "0.1", "--out", "adult")
    metrics = json.loads((tmp_path / "adult" / "metrics.json").read_text())
    assert metrics["converged"] is True
    assert metrics["train"]["dgeo_pooled"] <= 0.1 + 1e-6
    assert metrics["test"]["accuracy"] > 0.84
    assert (tmp_path / "adult" / "report.html").stat().st_size > 10_000
    assert sys.prefix not in where
