"""Two tables that differ by one row give the same private run, but for its noise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import (
    Schema,
    build_labels,
    grouped_by,
    infer_schema,
    load,
    make_table,
    schema_of,
)
from fairsilo.data.declared_rows import declared_rows
from fairsilo.errors import FairSiloError
from fairsilo.run import Options, execute, save
from fairsilo.run.prepare import read
from fairsilo.run.split import share_out, share_out_alone
from tests.network.silos import bounded

SILOS = ("silo0", "silo1", "silo2")
ROW: dict[str, Any] = {"label": "1", "group": "g0", "client": "silo0", "part": "train"}
"""A row more, of a common kind; the others differ from it in these cells."""
ODD_ROWS: list[dict[str, Any]] = [
    {}, {"label": "2", "group": "g9", "client": "silo9", "part": "later"}, {"group": None},
    {"label": None, "client": None, "x0": "text"}, {"x0": np.inf, "c0": "new"},
]  # fmt: skip


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    frame = make_table(300, silos=3, bias=1.0, seed=3).astype(object)
    return frame.assign(part=["test" if i % 5 == 0 else "train" for i in range(300)])


def with_row(table: pd.DataFrame, cells: dict[str, Any]) -> pd.DataFrame:
    row = table.iloc[[1]].assign(**{**ROW, **cells})
    return pd.concat([table, row], ignore_index=True)


def declared(table: pd.DataFrame, path: Path, by: tuple[str, ...] = ("group",)) -> Path:
    schema = infer_schema(
        table.infer_objects(), label="label", group="group", exclude=("client", "part")
    )
    if len(by) > 1:
        schema = grouped_by(schema, table, by)
    path.write_text(bounded(schema).model_dump_json())
    return path


def written(table: pd.DataFrame, folder: Path, name: str, **options: Any) -> Any:
    """model.json of a private run on the table, without what carries noise."""
    table.to_csv(folder / "rows.csv", index=False)
    told: dict[str, Any] = {"client": "client", "client_names": SILOS, "split": "part", **options}
    run = execute(
        Options(
            data=str(folder / "rows.csv"), label="label", protected_class="1", dp_epsilon=50.0,
            rounds=1, **{"group": "group", **told},
        )
    )  # fmt: skip
    save(run, folder / name)
    content = json.loads((folder / name / "model.json").read_text())
    numbers = content.pop("encoder"), content.pop("terms"), content["trained"].pop("reason")
    assert all(numbers), "these are made of noisy sums"
    metrics = json.loads((folder / name / "metrics.json").read_text())
    content["trained"].pop("converged")
    return content, metrics["dp"], metrics["test"]["rows"], metrics["bytes_up"]


@pytest.mark.slow
def test_whatever_is_in_a_row_more_only_noise_tells(table: pd.DataFrame, tmp_path: Path) -> None:
    schema = declared(table, tmp_path / "schema.json")
    wanted = written(table, tmp_path, "without", schema=schema)
    for k, cells in enumerate(ODD_ROWS):
        found = written(with_row(table, cells), tmp_path, f"with {k}", schema=schema)
        assert found == wanted, cells


@pytest.mark.slow
def test_small_intersections_are_never_pooled_by_exact_counts(
    table: pd.DataFrame, tmp_path: Path
) -> None:
    """Without noise groups below 100 rows are pooled: one row decides."""
    schema = declared(table, tmp_path / "schema.json", by=("group", "c0"))
    private = {"schema": schema, "group": "group,c0"}
    content, *_ = written(table, tmp_path, "private", **private)
    assert len(content["schema"]["groups"]) == 6
    assert not content["schema"]["pooled"]
    exact = Options(
        data=str(tmp_path / "rows.csv"), label="label", protected_class="1", group="group,c0",
        client="client", split="part", schema=schema, rounds=1,
    )  # fmt: skip
    assert execute(exact, baseline=False).prepared.schema.pooled, "so that the test bites"


@pytest.mark.slow
def test_a_client_without_a_row_is_a_client(table: pd.DataFrame, tmp_path: Path) -> None:
    schema = declared(table, tmp_path / "schema.json")
    rest = table[table["client"] != "silo1"]
    for engine in ("pooled", "clientwise"):
        content, dp, *_ = written(rest, tmp_path, engine, schema=schema, engine=engine)
        assert content["client_names"] == list(SILOS)
        assert dp["smallest_sum"] == 3


def test_a_row_more_moves_no_other_row(table: pd.DataFrame, tmp_path: Path) -> None:
    """Neither between clients nor between training and testing, where rows are drawn."""
    path = declared(table, tmp_path / "schema.json")
    schema = Schema.model_validate_json(path.read_text())
    options = Options(data="rows.csv", clients=3, dp_epsilon=1.0)
    more = pd.concat([with_row(table, {}).iloc[-1:], table], ignore_index=True)
    first, other = (
        share_out_alone(*declared_rows(one, schema), schema, options)[0] for one in (table, more)
    )
    np.testing.assert_array_equal(first, other[1:])
    drawn = [
        share_out(one, build_labels(one, schema)[0], replace(options, dp_epsilon=None), 1)[0]
        for one in (table, more)
    ]
    assert (drawn[0] != drawn[1][1:]).any(), "so that the test bites"


def test_adult_is_shared_out_row_by_row() -> None:
    """The command of docs/privacy.md: sizes are those of the paper but for chance."""
    frame, schema = load("adult"), schema_of("adult", load("adult"))
    rows, y, s = declared_rows(frame, schema)
    options = Options(data="adult", dp_epsilon=4.0)
    client, names, owner = share_out_alone(rows, y, s, schema, options)
    assert len(names) == 50
    assert owner is None
    assert abs((client == -1).sum() - 5222) < 4 * np.sqrt(5222)
    sizes = np.bincount(client[client >= 0], minlength=50)
    assert sizes.sum() + (client == -1).sum() == 45222
    assert sizes.std() < 2 * np.sqrt(800)
    left = np.arange(45222) != 17
    without, *_ = share_out_alone(rows[left], y[left], s[left], schema, options)
    np.testing.assert_array_equal(without, client[left])
    other, *_ = share_out_alone(rows, y, s, schema, replace(options, seed=1))
    assert ((other == -1) != (client == -1)).mean() > 0.1


def test_groups_of_a_named_data_set_are_declared_values() -> None:
    told = {"data": "adult", "dp_epsilon": 4.0}
    _, schema, _ = read(Options(**told, group="race"))  # type: ignore[arg-type]
    assert "Other" in schema.groups
    _, crossed, _ = read(Options(**told, group="sex,race"))  # type: ignore[arg-type]
    assert len(crossed.groups) == 2 * len(schema.groups)
    with pytest.raises(FairSiloError, match="values of column 'age' are not declared"):
        read(Options(**told, group="age"))  # type: ignore[arg-type]
