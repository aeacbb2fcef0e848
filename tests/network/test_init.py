"""`fairsilo flower init`: questions on real standard input, warnings of codes, a schema file."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from fairsilo.cli import app
from fairsilo.data import Category, Number, make_table
from fairsilo.data.infer import may_be_codes
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FILE, read_federation_file
from fairsilo.network.ops.draft import draft_table
from fairsilo.network.ops.keys import make_key
from fairsilo.network.ops.program import free_port
from fairsilo.report.live.serve import Watching
from fairsilo.run import Options
from tests.network.silos import make_town

MAIN = "from fairsilo.cli import main; main()"
NAMES = ("bank", "clinic", "shop")


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A table with a column of codes, and three silos' public keys beside it."""
    frame = make_table(300, silos=3, bias=1.0).drop(columns="client")
    rng = np.random.default_rng(0)
    frame["work"] = rng.integers(1, 9, len(frame))
    frame["flag"] = rng.integers(0, 2, len(frame))
    frame["age"] = rng.integers(18, 90, len(frame))
    frame.to_csv(tmp_path / "sample.csv", index=False)
    for name in NAMES:
        make_key(tmp_path / f"{name}.key", name)
    return tmp_path / "sample.csv"


def silos(folder: Path) -> list[str]:
    return [f"{name}={folder / name}.key.pub" for name in NAMES]


@pytest.mark.process
def test_init_asks(sample: Path, tmp_path: Path) -> None:
    """Typed answers; one that does not fit is asked for again; empty ones take the default."""
    pd.read_csv(sample).to_csv(sample, index=False, sep=";", decimal=",")
    answers = ["", "loans", "missing.csv", str(sample), "nothing", "label", "1", "group"]
    answers += ["work", "", "0.1", *silos(tmp_path), "", "hub.example.org", "no port", "9443"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            MAIN,
            "flower",
            "init",
            "--interactive",
            "--sep",
            ";",
            "--decimal",
            ",",
        ],
        input="\n".join(answers) + "\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for told in ("there is no file missing.csv", "'nothing' is not a column", "is no port"):
        assert told in done.stdout
    agreed = read_federation_file(tmp_path / "work" / FILE)
    assert (agreed.name, agreed.epsilon, agreed.names) == ("loans", 0.1, NAMES)
    assert agreed.protected_class == "1"
    assert "work" not in agreed.table.numbers
    address = (tmp_path / "work" / "address.txt").read_text().strip()
    assert address == "hub.example.org:9443"
    # The command that it prints writes the same file.
    text = done.stdout.partition("without questions:\n")[2].partition("\n\n")[0]
    words = shlex.split(text.replace("\\\n", " "))
    words[words.index("--folder") + 1] = str(tmp_path / "again")
    found = CliRunner().invoke(app, words[1:])
    assert found.exception is None, found.output
    assert read_federation_file(tmp_path / "again" / FILE) == agreed


def test_what_is_missing_is_said(sample: Path, tmp_path: Path) -> None:
    given = ["flower", "init", "--sample", str(sample), "--label", "label", "--group", "group"]
    for more, sentence in (
        ([], "--folder is missing"),
        (["--folder", str(tmp_path / "work")], "--silo is missing"),
    ):
        found = CliRunner().invoke(app, [*given, "--protected-class", "1", *more])
        assert isinstance(found.exception, FairSiloError)
        assert sentence in str(found.exception)


@pytest.mark.parametrize(
    ("pairs", "why"),
    [("x0:nothing", "'nothing', which is no feature"), ("x0:x0", "'x0' with itself")],
)
def test_pairs_that_cannot_be_are_said_before_anybody_is_asked(
    sample: Path, tmp_path: Path, pairs: str, why: str
) -> None:
    arguments = ["flower", "init", "--sample", str(sample), "--label", "label", "--group", "group"]
    arguments += ["--protected-class", "1", "--folder", str(tmp_path / "work")]
    arguments += ["--model", "additive", "--pairs", pairs]
    for one in silos(tmp_path):
        arguments += ["--silo", one]
    found = CliRunner().invoke(app, arguments)
    assert isinstance(found.exception, FairSiloError)
    assert why in str(found.exception)
    assert not (tmp_path / "work").exists()


def test_columns_that_may_be_codes_are_named(sample: Path, tmp_path: Path) -> None:
    arguments = ["flower", "init", "--sample", str(sample), "--label", "label", "--group", "group"]
    arguments += ["--protected-class", "1", "--folder", str(tmp_path / "work")]
    for one in silos(tmp_path):
        arguments += ["--silo", one]
    found = CliRunner().invoke(app, arguments)
    assert found.exception is None
    warned = [line for line in found.stderr.splitlines() if "codes" in line]
    assert len(warned) == 1
    assert "column 'work' has 8 different whole numbers" in warned[0]
    assert warned[0].endswith("--category work")
    # Where it is said what the column is, nothing is doubted.
    for option, kind in (("--category", Category), ("--number", Number)):
        folder = tmp_path / option
        again = [str(folder) if word.endswith("/work") else word for word in arguments]
        found = CliRunner().invoke(app, [*again, option, "work"])
        assert found.exception is None
        assert "codes" not in found.stderr
        features = {one.name: one for one in read_federation_file(folder / FILE).table.features}
        assert isinstance(features["work"], kind)


def test_what_looks_like_codes() -> None:
    frame = pd.DataFrame(
        {
            "code": [1, 2, 9] * 20,
            "missing": [1, 2, 9, None] * 15,
            "two": [0, 1] * 30,
            "share": [0.5, 1.0, 2.0] * 20,
            "many": range(60),
            "text": ["a", "b", "c"] * 20,
            "truth": [True, False] * 30,
        }
    )
    assert may_be_codes(frame) == [("code", 3), ("missing", 3)]


def test_a_private_federation_reads_nothing_off_a_sample(sample: Path, tmp_path: Path) -> None:
    options = Options(data="", label="label", group="group", protected_class="1", dp_epsilon=4.0)
    with pytest.raises(FairSiloError, match="must not be read off the rows of `sample`"):
        draft_table(options, sample)


def test_a_witness_gets_a_folder_of_its_own(sample: Path, tmp_path: Path) -> None:
    """A key, settings without a table, a script; a silo's check says where there is no witness."""
    public = make_key(tmp_path / "office.key", "office")
    given = ["flower", "init", "--sample", str(sample), "--label", "label", "--group", "group"]
    given += ["--protected-class", "1", *(f"--silo={one}" for one in silos(tmp_path))]
    work, plain = tmp_path / "work", tmp_path / "plain"
    more = [f"--witness=office={tmp_path / 'office.key.pub'}", "--folder", str(work)]
    for arguments in (more, ["--folder", str(plain)]):
        found = CliRunner().invoke(app, [*given, *arguments])
        assert found.exception is None, found.output
    agreed = read_federation_file(work / FILE)
    assert [(one.name, one.public_key) for one in agreed.witnesses] == [("office", public)]
    assert agreed.signers == 1
    own = work / "silos" / "office"
    assert "fairsilo flower witness" in (own / "start-witness.sh").read_text()
    assert (work / "keys" / "office.pub").exists()
    shutil.copy(tmp_path / "office.key", own / "node.key")
    checked = CliRunner().invoke(app, ["flower", "check", "--settings", str(own / "silo.toml")])
    assert "this witness fits the federation file" in checked.output
    assert "office" in (work / "README.md").read_text()
    for folder, told in ((work, False), (plain, True)):
        settings = folder / "silos" / "bank" / "silo.toml"
        checked = CliRunner().invoke(app, ["flower", "check", "--settings", str(settings)])
        assert ("has no witnesses" in checked.output) is told
    wrong = CliRunner().invoke(app, ["flower", "witness", "--settings", str(settings)])
    assert "is a silo's" in str(wrong.exception)
    few = CliRunner().invoke(app, [*given, *more, "--quorum", "2"])
    assert "quorum is more than there are witnesses" in str(few.exception)
    with pytest.raises(ValidationError, match="quorum must be more than half of the witnesses"):
        make_town(tmp_path / "half", watched=2, quorum=1)


@pytest.mark.parametrize("port", ["0", "65536", "70000", "-1"])
def test_a_port_that_is_none_is_a_wrong_option(tmp_path: Path, port: str) -> None:
    commands = [["init", "--folder", str(tmp_path / "work"), "--port", port]]
    commands += [["silo", "--port", port], ["witness", "--port", port]]
    if port != "0":
        commands += [["watch", "--port", port], ["silo", "--health-port", port]]
        commands += [["superlink", "--control-port", port]]
    for command in commands:
        done = CliRunner().invoke(app, ["flower", *command])
        assert done.exit_code == 2
        assert "65535" in done.output
    assert not (tmp_path / "work").exists()


def test_a_port_that_is_none_is_one_sentence_in_python(tmp_path: Path) -> None:
    with pytest.raises(FairSiloError, match=r"`port` 70000 cannot be used \(.*65535"):
        free_port(70000)
    with pytest.raises(FairSiloError, match=r"`port` 70000 cannot be used \(.*65535"):
        Watching(tmp_path / "progress.jsonl", 70000)
