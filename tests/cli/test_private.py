"""`fairsilo train --dp-epsilon` end to end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fairsilo.data import Number, infer_schema, make_table
from fairsilo.data.schema import Schema
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, execute, load, save
from tests.cli.conftest import Program

OWN = (
    "train",
    "--data",
    "loans.csv",
    "--label",
    "label",
    "--protected-class",
    "1",
    "--group",
    "group",
    "--client",
    "client",
    "--split",
    "part",
)
NAMED = ("--client-names", "silo0,silo1,silo2,silo3")  # fmt: skip


SILOS = tuple(f"silo{k}" for k in range(4))


def declared(frame: pd.DataFrame) -> Schema:
    """The schema that the silos would agree on, with bounds that do not depend on the rows."""
    schema = infer_schema(frame, label="label", group="group", exclude=("client", "part"))
    features = tuple(
        Number(name=f.name, bounds=(-5.0, 5.0)) if isinstance(f, Number) else f
        for f in schema.features
    )
    return schema.model_copy(update={"features": features})


@pytest.fixture
def options(loans: pd.DataFrame, tmp_path: Path) -> Options:
    (tmp_path / "schema.json").write_text(declared(loans).model_dump_json())
    return Options(
        data=str(tmp_path / "loans.csv"),
        label="label",
        protected_class="1",
        group="group",
        client="client",
        client_names=SILOS,
        split="part",
        schema=tmp_path / "schema.json",
        dp_epsilon=8.0,
    )


def test_at_the_command_line(fairsilo: Program, options: Options, tmp_path: Path) -> None:
    done = fairsilo(*OWN, *NAMED, "--schema", "schema.json", "--dp-epsilon", "8", "--out", "run")
    assert done.returncode == 0, done.stderr
    assert "differential privacy of a training row: epsilon 8 of 8 spent" in done.stdout
    dp = json.loads((tmp_path / "run" / "metrics.json").read_text())["dp"]
    assert 7.99 < dp["epsilon_spent"] <= 8
    assert dp["delta"] == 1e-5
    two, five, ten = (dp["epsilon_of_rows"][rows] for rows in ("2", "5", "10"))
    assert 16 < two < 0.4 * five < 0.2 * ten, "more than so many times the epsilon"
    assert f"(of a person with 5 rows: {five:.3g})" in done.stdout
    assert dp["releases"] == sum(one["times"] for one in dp["ledger"]) == 16


@pytest.mark.slow
def test_only_what_was_released_is_said_of_the_training_rows(
    options: Options, tmp_path: Path
) -> None:
    first, second = execute(options), execute(options)
    metrics = first.metrics
    assert metrics["rounds"] == 6
    assert metrics["by_client"] == []
    assert metrics["train"]["dgeo_mean"] is None
    assert metrics["train"]["dgeo_noise"] > 0
    assert "unconstrained" not in metrics
    assert second.metrics["train"]["loss"] != metrics["train"]["loss"], "noise must not be seeded"
    assert second.prepared.encoder != first.prepared.encoder
    save(first, tmp_path / "run")
    assert load(tmp_path / "run").metrics["dp"] == metrics["dp"]


@pytest.mark.slow
def test_noise_that_is_not_shared_is_more(options: Options) -> None:
    shared, full = (
        execute(Options(**{**vars(options), "dp_noise": noise, "solver": "agp", "rounds": 2}))
        for noise in ("shared", "full")
    )
    # Four silos, t = 3: the variance is 4/3 sigma^2 with shared noise, 4 sigma^2 with full.
    ratio = full.metrics["train"]["dgeo_noise"] / shared.metrics["train"]["dgeo_noise"]
    assert ratio == pytest.approx(3**0.5, rel=0.25), "up to the noise in the counts"
    assert [one["release"] for one in full.metrics["dp"]["ledger"]] == [
        "encoder", "counts", "gradients", "losses", "outcomes"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"dp_epsilon": 0.0}, "`dp_epsilon` is 0"),
        (
            {"dp_epsilon": 10_000.0},
            "`dp_epsilon` is 10000.0: give a number above 0 and at most 100",
        ),
        ({"dp_delta": 1.0}, "`dp_delta` is 1"),
        ({"dp_clip": 0.0}, "`dp_clip` is 0"),
        ({"estimator": "mean"}, "use `estimator` pooled"),
        ({"method": "lco"}, "`method` lco has no differential privacy"),
        ({"solver": "lbfgs"}, "use `solver` newton or agp"),
        ({"solver": "newton", "model": "mlp"}, "use `solver` agp"),
        ({"dp_split": (0.5, 0.5, 0.5)}, "add up to 1"),
        ({"dp_noise": "ful"}, "perhaps 'full'"),
        ({"min_cell": 5}, "leave one of them out"),
        ({"schema": None}, "give it as `schema`"),
        ({"schema": Path("none.json")}, "cannot read the schema none.json"),
        ({"dp_epsilon": 0.01}, "too few training rows"),
        ({"notion": "demographic-parity"}, "`notion` demographic-parity measures a row under"),
        ({"target_deo": 0.02}, "leave out `target_deo` and `pool`"),
        ({"pool": 10}, "leave out `target_deo` and `pool`"),
        ({"group": "group,c0"}, "`group` is 'group,c0' and the file"),
        ({"client_names": ()}, "name all clients as `client_names`"),
        ({"client_names": ("silo0", "silo0")}, "occurs twice in `client_names`"),
        ({"client": None}, "`client_names` declares the values of `client`"),
        ({"dp_epsilon": None}, "`client_names` declares the values of `client`"),
        ({"client": None, "client_names": (), "partition": "skewed"}, "by exact counts"),
    ],
)
def test_mistakes_get_one_sentence(
    options: Options, change: dict[str, object], sentence: str
) -> None:
    with pytest.raises(FairSiloError, match=sentence):
        execute(Options(**{**vars(options), **change}))


def test_columns_need_bounds(options: Options, loans: pd.DataFrame) -> None:
    schema = infer_schema(loans, label="label", group="group", exclude=("client", "part"))
    assert options.schema is not None
    options.schema.write_text(schema.model_dump_json())
    with pytest.raises(FairSiloError, match="column 'x0' has no declared bounds"):
        execute(options)


@pytest.mark.slow
def test_a_schema_is_drafted_and_its_bounds_are_left_to_a_person(
    quick: Program, loans: pd.DataFrame, tmp_path: Path
) -> None:
    asked = ("data", "schema", "--data", "loans.csv", "--label", "label", "--group", "group")
    drafted = quick(*asked, "--client", "client", "--split", "part", "--out", "own.json")
    assert drafted.returncode == 0, drafted.stderr
    assert "numbers without bounds: x0, x1" in drafted.stdout
    assert "nothing that was seen in the rows" in drafted.stdout
    path = tmp_path / "own.json"
    content = json.loads(path.read_text())
    numbers = [one for one in content["features"] if one["kind"] == "number"]
    assert all(one["bounds"] is None for one in numbers)
    declared = (*NAMED, "--schema", "own.json", "--dp-epsilon", "8", "--rounds", "1")
    private = (*OWN, *declared, "--out", "run")
    refused = quick(*private)
    assert "column 'x0' has no declared bounds" in refused.stderr
    for one in numbers:
        one["bounds"] = [-5, 5]
    path.write_text(json.dumps(content))
    assert quick(*private).returncode == 0
    assert "exists already" in quick(*asked, "--out", "own.json").stderr


def test_no_note_is_read_off_the_rows(options: Options, tmp_path: Path) -> None:
    frame = make_table(1200, silos=4, groups=3, seed=1, bias=1.5)
    frame["part"] = ["test" if i % 5 == 0 else "train" for i in range(len(frame))]
    (tmp_path / "schema.json").write_text(declared(frame).model_dump_json())
    odd = frame["client"].where(frame.index % 50 > 0, "Silo0")
    frame.assign(client=odd).to_csv(tmp_path / "loans.csv", index=False)
    run = execute(replace(options, groups=("g0", "g1"), rounds=1))
    assert "g2" in run.prepared.schema.groups
    assert not [one for one in run.metrics["notes"] if "blanks or case" in one or "nobody" in one]


def test_two_clients_cannot_share_noise(options: Options) -> None:
    with pytest.raises(FairSiloError, match="`dp_noise` full"):
        execute(replace(options, client_names=("silo0", "silo1")))


@pytest.mark.slow
def test_the_report_says_what_the_noise_does(options: Options, tmp_path: Path) -> None:
    run = execute(Options(**{**vars(options), "rounds": 2}))
    save(run, tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "for the noise of differential privacy" in page
    assert "Of a person who has 2, 5 or 10 of the rows, epsilon is" in page
    assert "Ended after the 2 rounds that the privacy budget pays for" in page
    assert "did not end as it should" not in page


EVERY_PAIR = ["g0 - g1", "g0 - g2", "g1 - g2"]


@pytest.mark.parametrize(
    ("change", "compared", "limits"),
    [
        (
            {"notion": "equalized-odds"},
            [f"{pair} in {name}" for name in "01" for pair in EVERY_PAIR],
            [0.05] * 6,
        ),
        ({"notion": "accuracy-parity"}, EVERY_PAIR, [0.05] * 3),
        ({"notion": "bounded-loss", "epsilon": 0.6}, ["g0", "g1", "g2"], [0.6] * 3),
        (
            {"against": "rest"},
            [f"{group} - the others in 1" for group in ("g0", "g1", "g2")],
            [0.05] * 3,
        ),
        (
            {"epsilons": (("g2:g0", 0.02),)},
            [f"{pair} in 1" for pair in EVERY_PAIR],
            [0.05, 0.02, 0.05],
        ),
    ],
    ids=["equalized-odds", "accuracy-parity", "bounded-loss", "rest", "single pairs"],
)
def test_whatever_is_compared_costs_the_same(
    change: dict[str, object], compared: list[str], limits: list[float], tmp_path: Path
) -> None:
    frame = make_table(1200, silos=4, groups=3, seed=1, bias=1.5)
    frame["part"] = ["test" if i % 5 == 0 else "train" for i in range(len(frame))]
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "schema.json").write_text(declared(frame).model_dump_json())
    values: dict[str, object] = {"label": "label", "protected_class": "1", "group": "group"}
    values |= {
        "client": "client",
        "client_names": SILOS,
        "split": "part",
        "schema": tmp_path / "schema.json",
    }
    values |= {"dp_epsilon": 8.0, "rounds": 2, **change}
    run = execute(Options(str(tmp_path / "t.csv"), **values))  # type: ignore[arg-type]
    metrics = run.metrics
    assert [one["epsilon"] for one in metrics["constraints"]] == limits
    assert [one["name"] for one in metrics["constraints"]] == compared
    assert 7.99 < metrics["dp"]["epsilon_spent"] <= 8
    # encoder, counts, curvature, outcomes, and in both rounds gradients and losses
    assert metrics["dp"]["releases"] == 8
    assert metrics["train"]["dgeo_noise"] > 0
    assert all(set(one["train"].values()) == {None} for one in metrics["constraints"])
    save(run, tmp_path / "run")
    assert "for the noise of differential privacy" in (tmp_path / "run/report.html").read_text()
