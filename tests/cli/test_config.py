"""Options from a TOML file: every one, by the name of its flag, and what is typed wins."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.cli.shared_options import OPTIONS
from tests.cli.conftest import Program

CONFIG = """
data = "loans.csv"
label = "label"
protected-class = 1
group = "group"
groups = ["g0", "g1"]
client = "client"
split = "part"
epsilon = 0.5
drop-group = true
baseline = false
seed = 3
out = "run"
"""
TYPED = (
    "train", "--data", "a.csv", "--groups", 'Female,"a, b"', "--drop-group", "--epsilon",
    "0.05,Black:White=0.1", "--target-by", "search", "--dp-delta", "1e-7", "--seed", "7",
    "--penalty", "auto", "--no-baseline", "--schema", "s.json", "--sep", "|",
)  # fmt: skip


def test_what_is_written_is_read_again(quick: Program, tmp_path: Path) -> None:
    done = quick(*TYPED, "--write-config", "one.toml")
    assert done.returncode == 0, done.stderr
    told = tomllib.loads((tmp_path / "one.toml").read_text())
    assert told["groups"] == 'Female,"a, b"'
    assert told["epsilon"] == "0.05,Black:White=0.1"
    assert (told["drop-group"], told["baseline"], told["seed"]) == (True, False, 7)
    assert "method" not in told
    quick("train", "--config", "one.toml", "--write-config", "two.toml")
    one, two = ((tmp_path / f"{name}.toml").read_text() for name in ("one", "two"))
    assert one == two.replace("two.toml", "one.toml")


def test_every_option_is_in_the_file(quick: Program, tmp_path: Path) -> None:
    assert quick("train", "--write-config", "all.toml").returncode == 0
    written = (tmp_path / "all.toml").read_text()
    for name in (*OPTIONS, "baseline", "out", "mlflow", "fail_on"):
        assert f"\n# {name.replace('_', '-')} =" in written, name
    done = quick("train", "--write-config", "all.toml")
    assert done.returncode == 2
    assert "exists already" in done.stderr


def test_a_training_by_file(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(CONFIG)
    done = quick("train", "--config", "run.toml", "--epsilon", "0.1", "--quiet")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "run" / "model.json").read_text())["options"]
    assert told["epsilon"] == 0.1
    assert told["groups"] == ["g0", "g1"]
    assert (told["protected_class"], told["seed"], told["drop_group"]) == ("1", 3, True)
    assert "unconstrained" not in json.loads((tmp_path / "run" / "metrics.json").read_text())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("protected_clas = '1'", "there is no option 'protected_clas', perhaps 'protected-class'"),
        ("zzzzzz = 1", "there is no option 'zzzzzz': see --help"),
        ("config = 'other.toml'", "there is no option 'config'"),
        ("[data]\nname = 'x'", "'data' is a table"),
        ("label = true", "'label' takes a value, not true or false"),
        ("data = ", "cannot be read as TOML"),
    ],
)
def test_mistakes_in_a_file(quick: Program, tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "run.toml").write_text(content)
    done = quick("train", "--config", "run.toml")
    assert done.returncode == 2
    assert said in done.stderr


def test_an_option_of_another_command_and_an_empty_list(quick: Program, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("drop = []\nseed = 3\nnotion = 'equalized-odds'")
    said = quick("compare", "--config", "run.toml").stderr
    assert "is an option of `train`, not of `compare`" in said
    quick("train", "--config", "run.toml", "--write-config", "again.toml")
    assert "drop" not in tomllib.loads((tmp_path / "again.toml").read_text())


def test_a_file_that_is_not_there(quick: Program) -> None:
    assert "nothing.toml does not exist" in quick("train", "--config", "nothing.toml").stderr


def test_a_federation_by_file(quick: Program, tmp_path: Path) -> None:
    typed = ("flower", "init", "--silo", "a=a.pem", "--silo", "b=b.pem", "--epsilon", "0.2")
    assert quick(*typed, "--write-config", "f.toml").returncode == 0
    told = tomllib.loads((tmp_path / "f.toml").read_text())
    assert told == {"silo": ["a=a.pem", "b=b.pem"], "epsilon": "0.2"}
    quick("flower", "init", "--config", "f.toml", "--write-config", "g.toml")
    assert tomllib.loads((tmp_path / "g.toml").read_text()) == told


def test_a_look_takes_what_is_its_own_of_a_training_s_file(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    told = (
        "--data",
        "loans.csv",
        "--label",
        "label",
        "--protected-class",
        "1",
        "--client",
        "client",
    )
    quick("train", *told, "--group", "group", "--epsilon", "0.1", "--write-config", "job.toml")
    done = quick("data", "look", "--config", "job.toml")
    assert done.returncode == 0, done.stderr
    assert "groups by client" in done.stdout
    done = quick("data", "schema", "--config", "job.toml")
    assert done.returncode == 0, done.stderr
