"""`fairsilo export` end to end, and its error messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from fairsilo.cli import app
from fairsilo.cli.flags import as_typed
from fairsilo.data import make_table
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, execute, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("export")
    frame: pd.DataFrame = make_table(300, seed=1)
    frame.to_csv(path / "t.csv", index=False)
    options = Options(
        str(path / "t.csv"), label="label", protected_class="1", group="group", client="client"
    )
    save(execute(options, baseline=False), path / "run")
    return path


def export(folder: Path, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["export", "--model", str(folder / "run"), *arguments])
    if done.exception is not None:
        raise done.exception
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("to", "name"), [("onnx", "m.onnx"), ("card", "c.md"), ("card", "c.json")])
def test_writes_the_file(to: str, name: str, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / name
    assert f"{to}: {out}" in export(folder, "--to", to, "--out", str(out))
    assert out.stat().st_size > 500


def test_the_cards_agree_and_hold_the_owners_words(folder: Path, tmp_path: Path) -> None:
    for name in ("c.md", "c.json"):
        export(folder, "--to", "card", "--out", str(tmp_path / name), "--use", "To test.")
    assert json.loads((tmp_path / "c.json").read_text())["intended_use"] == "To test."
    assert "## Intended use\n\nTo test." in (tmp_path / "c.md").read_text()
    beside = (folder / "run" / "card.md").read_text()
    assert beside.replace("Not stated by the owner", "") != beside


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--to", "sklearn", "--out", "m"), "fairsilo.load reads the run folder itself"),
        (("--to", "sklearn"), "fairsilo.load reads the run folder itself"),
        (("--to", "onnx"), "--out is missing"),
        (("--to", "onx", "--out", "m.onnx"), "--to 'onx' is unknown.*perhaps 'onnx'"),
        (("--to", "onnx", "--out", "m.pb"), "must end in .onnx"),
        (("--to", "onnx", "--out", f"{__file__}/m.onnx"), "test_export.py is a file"),
        (("--to", "card", "--out", "m.html"), "must end in .md or .json"),
        (("--to", "onnx", "--out", "m.onnx", "--use", "x"), "--use is for --to card"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    with pytest.raises(FairSiloError) as error:
        export(folder, *arguments)
    assert re.search(said, as_typed(str(error.value)))
