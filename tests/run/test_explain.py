"""What `explain` adds up, against the dense matrix, and the memory that it takes."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import read_table
from fairsilo.run import Options, execute, save
from fairsilo.run.explain import BLOCK, explain_table
from fairsilo.run.store import load
from fairsilo.run.terms import blocks_of

VALUES = 150


def table(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, group = rng.normal(size=rows), rng.choice(["a", "b"], rows)
    kinds = {name: rng.integers(0, VALUES, rows) for name in ("shop", "street")}
    y = (x + kinds["shop"] / VALUES + rng.normal(size=rows) > 0.5).astype(int)
    named = {name: [f"{name[0]}{k}" for k in codes] for name, codes in kinds.items()}
    return pd.DataFrame({"x": x, **named, "group": group, "y": y})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explained")
    table(3000).to_csv(folder / "table.csv", index=False)
    asked = Options(
        str(folder / "table.csv"), label="y", protected_class="1", group="group", clients=2,
        method="fedavg", penalty=1.0,
    )  # fmt: skip
    save(execute(asked), folder / "run")
    return folder / "run"


def test_terms_equal_the_products_of_the_dense_matrix(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    table(BLOCK + 7).to_parquet(path)
    found, saved = explain_table(run, path), load(run)
    frame = read_table(path, saved.schema)
    x, theta = saved.encoder.transform(frame), np.asarray(saved.predictors[0].theta)  # type: ignore[attr-defined]
    for block in blocks_of(saved.encoder):
        expected = x[:, block.places] @ theta[1:][block.places]
        np.testing.assert_allclose(found[block.name], expected, atol=1e-12)
    np.testing.assert_allclose(found["log-odds 1"], theta[0] + x @ theta[1:], atol=1e-11)


def test_no_dense_matrix_is_made(run: Path, tmp_path: Path) -> None:
    """Rows times parameters would be 96 MB."""
    path, rows = tmp_path / "new.parquet", 40_000
    table(rows).to_parquet(path)
    explain_table(run, path)  # What is loaded once does not count.
    tracemalloc.start()
    explain_table(run, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows * 2 * VALUES * 8 / 4
