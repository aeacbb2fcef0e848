"""Runs side by side: what differs, figures with intervals, changes on the same test rows."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cli.conftest import Program

TRAIN = (
    "train", "--data", "loans.csv", "--label", "label", "--protected-class", "1", "--group",
    "group", "--client", "client", "--no-baseline", "--quiet",
)  # fmt: skip


def trained(quick: Program, out: str, *more: str) -> None:
    done = quick(*TRAIN, "--out", out, *more)
    assert done.returncode == 0, done.stderr


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_two_runs_of_the_same_rows(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    trained(quick, "runs/tight", "--split", "part", "--epsilon", "0.01")
    trained(quick, "runs/loose", "--split", "part", "--epsilon", "0.5", "--drop-group")
    done = quick("diff", "runs/tight", "runs/loose", "--json", "--out", "diff.html")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["settings"]["epsilon"] == [0.01, 0.5]
    assert found["settings"]["drop_group"] == [False, True]
    assert "seed" not in found["settings"]
    tight, loose = (read(tmp_path / "runs" / one / "metrics.json") for one in ("tight", "loose"))
    (paired,) = found["paired"]
    assert paired["rows"] == (loans["part"] == "test").sum()
    apart = loose["test"]["accuracy"] - tight["test"]["accuracy"]
    assert paired["accuracy"]["change"] == pytest.approx(apart)
    low, high = paired["accuracy"]["interval"]
    assert low < apart < high
    # The change of a signed gap is the difference of what each run says of its own gap.
    (gap,) = paired["gaps"]
    for kind in ("rate", "loss"):
        told = [one["pairs"][0][kind]["value"] for one in found["runs"]]
        assert gap[kind]["change"] == pytest.approx(told[1] - told[0])
    assert gap["name"] == "g0 \N{MINUS SIGN} g1 (label=1)"
    page = (tmp_path / "diff.html").read_text()
    assert "tight and loose, side by side" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    done = quick("diff", "runs/tight", "runs/loose")
    assert "settings that differ" in done.stdout
    assert "'loose' minus 'tight', on the same 80 test rows" in done.stdout
    assert "a gap is the first group minus the second" in done.stdout
    assert (
        "limited differently ('tight': losses 0.01 apart, 'loose': losses 0.5 apart)" in done.stdout
    )


def test_names_of_runs_stay_as_they_are(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    for name in ("t8", "t9", "u1"):
        trained(quick, name, "--split", "part", "--rounds", "1", "--decide-at", "0.9999")
    done = quick("diff", "t8", "t9", "u1", "--out", "diff.html")
    assert done.returncode == 0, done.stderr
    page = unescape((tmp_path / "diff.html").read_text())
    for text in (done.stdout, page):
        assert "he run 't8' is hardly better" in text
        assert "he run 't9' did not converge" in text
        assert "compared with 't8', the first" in text
        assert "T8" not in text


def test_what_cannot_be_paired_is_said(quick: Program, loans: pd.DataFrame, tmp_path: Path) -> None:
    trained(quick, "a", "--seed", "1")
    trained(quick, "b", "--seed", "2", "--notion", "demographic-parity", "--epsilon", "0.1")
    done = quick("diff", "a", "b")
    assert done.returncode == 0, done.stderr
    assert "their test rows differ (80 and 80): train both with one --split" in done.stdout
    assert "different notions of fairness" in done.stdout
    (tmp_path / "loans.csv").rename(tmp_path / "elsewhere.csv")
    done = quick("diff", "a", "b", "--json")
    assert json.loads(done.stdout)["paired"] == []
    assert "(loans.csv) are not here: say with --data where" in done.stdout
    loans.iloc[1:].to_csv(tmp_path / "loans.csv", index=False)
    assert "its digest differs" in quick("diff", "a", "b").stdout
    trained(quick, "c")
    (tmp_path / "loans.csv").unlink()
    said = " ".join(quick("diff", "a", "c").stdout.split())
    assert "no paired test of 'c' with 'a': they are of different data sets" in said
    assert "are not here" not in said
    (tmp_path / "b" / "history.parquet").unlink()
    assert quick("diff", "a", "b", "--data", "elsewhere.csv").returncode == 0


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (("a",), "give two to 12 run folders"),
        (("a", "a"), "named twice"),
        (("a", "nowhere"), "nowhere/model.json does not exist"),
        (("nothing", "a"), "nothing has a model and no figures"),
    ],
)
def test_mistakes(quick: Program, tmp_path: Path, runs: tuple[str, ...], said: str) -> None:
    for folder, metrics in (("a", '{"test": {}}'), ("nothing", "{}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.json").write_text("{}")
        (tmp_path / folder / "metrics.json").write_text(metrics)
    done = quick("diff", *runs)
    assert done.returncode == 2
    assert said in done.stderr


def test_rows_with_weights_are_paired_by_them(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    loans.assign(times=[k % 4 for k in range(len(loans))]).to_csv(
        tmp_path / "loans.csv", index=False
    )
    for out, epsilon in (("tight", "0.01"), ("loose", "0.5")):
        trained(quick, out, "--split", "part", "--weight", "times", "--epsilon", epsilon)
    done = quick("diff", "tight", "loose", "--json", "--out", "diff.html")
    assert done.returncode == 0, done.stderr
    (paired,) = json.loads(done.stdout)["paired"]
    told = [read(tmp_path / one / "metrics.json")["test"] for one in ("tight", "loose")]
    assert paired["weighted"]
    assert paired["rows"] == told[0]["rows"]
    assert paired["accuracy"]["change"] == pytest.approx(told[1]["accuracy"] - told[0]["accuracy"])
    (gap,) = paired["gaps"]
    for kind in ("rate", "loss"):
        both = [one["pairs"][0][kind]["value"] for one in json.loads(done.stdout)["runs"]]
        assert gap[kind]["change"] == pytest.approx(both[1] - both[0])
    assert "which count by their weights" in (tmp_path / "diff.html").read_text()
    assert "which count by their weights" in " ".join(
        quick("diff", "tight", "loose").stdout.split()
    )


def test_of_runs_with_and_without_weights_it_is_said_how_rows_count(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    loans.assign(times=[1 + k % 4 for k in range(len(loans))]).to_csv(
        tmp_path / "loans.csv", index=False
    )
    trained(quick, "with", "--split", "part", "--weight", "times")
    trained(quick, "without", "--split", "part", "--drop", "times")
    for runs, how in (
        (("with", "without"), "by the weights of 'with'"),
        (("without", "with"), "once each, as for 'without'"),
    ):
        said = " ".join(quick("diff", *runs, "--out", "diff.html").stdout.split())
        assert f"test rows, which count {how}" in said
        assert f"which count {how}" in unescape((tmp_path / "diff.html").read_text())


def test_runs_over_a_network_are_paired_on_rows_that_are_here(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    for out, epsilon in (("near", "0.01"), ("far", "0.5")):
        trained(quick, out, "--split", "part", "--epsilon", epsilon)
    plain = json.loads(quick("diff", "near", "far", "--json").stdout)["paired"]
    # As the network's folder is: it says so, and knows neither table nor clients.
    metrics, about = (read(tmp_path / "far" / name) for name in ("metrics.json", "model.json"))
    metrics["network"] = {"silos": ["a", "b"]}
    about["options"].update(data="federation", client=None)
    del about["made"]["data_sha256"]
    for name, content in (("metrics.json", metrics), ("model.json", about)):
        (tmp_path / "far" / name).write_text(json.dumps(content))
    done = quick("diff", "near", "far")
    assert "there is no paired test of 'far' with 'near'" in done.stdout
    assert "its test rows stay in the silos" in done.stdout
    done = quick("diff", "near", "far", "--data", "loans.csv", "--json")
    assert json.loads(done.stdout)["paired"] == plain
    assert "'far' is tested on the rows of loans.csv that column 'part' calls test" in done.stdout
    loans[loans["part"] == "test"].to_csv(tmp_path / "tested.csv", index=False)
    (tmp_path / "near" / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "near" / "model.json").write_text(json.dumps(about))
    done = quick("diff", "near", "far", "--data", "tested.csv", "--json")
    assert json.loads(done.stdout)["paired"][0]["rows"] == plain[0]["rows"], done.stdout
    loans.drop(columns="part").to_csv(tmp_path / "new.csv", index=False)
    done = quick("diff", "near", "far", "--data", "new.csv", "--json")
    found = json.loads(done.stdout)
    assert found["paired"][0]["rows"] == len(loans)
    assert "whether training saw them is not known" in found["notes"][-1]
