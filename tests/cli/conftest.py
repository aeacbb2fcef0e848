"""Run the real program in a process of its own, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.cli import main
from fairsilo.data import make_table

Program = Callable[..., subprocess.CompletedProcess[str]]
MINE = ("FAIRSILO_DATA", "COLUMNS")
"""Environment variables of the developer that are removed."""


@pytest.fixture
def fairsilo(tmp_path: Path) -> Program:
    """`fairsilo ARGS` in an empty folder, without the developer's settings."""

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if k not in MINE}
        clean["XDG_CACHE_HOME"] = str(tmp_path / "cache")
        return subprocess.run(
            [sys.executable, "-c", "from fairsilo.cli import main; main()", *args],
            cwd=tmp_path,
            env={**clean, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture
def quick(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Program:
    """The same in this process, for tests with many calls."""

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        for name in MINE:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(sys, "argv", ["fairsilo", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        return subprocess.CompletedProcess(
            args, code if isinstance(code, int) else 1, *capsys.readouterr()
        )

    return run


@pytest.fixture
def loans(tmp_path: Path) -> pd.DataFrame:
    """A small table, written as loans.csv beside the program."""
    frame = make_table(400, silos=4, seed=1, missing=0.02)
    frame["part"] = ["test" if i % 5 == 0 else "train" for i in range(len(frame))]
    frame.to_csv(tmp_path / "loans.csv", index=False)
    return frame
