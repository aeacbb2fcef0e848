"""One row of a silo's CSV changes that row's contribution and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsilo.data import Category, Number, Schema, infer_schema, make_table, read_table
from fairsilo.data.bounded import bounded_sums, sensitivity
from fairsilo.data.encoder import Encoder, Scaling
from fairsilo.network.federation_file import FederationFile, Privacy
from fairsilo.network.ops.check import check_table
from fairsilo.network.rows import split_rows
from fairsilo.network.settings import Settings, read_settings
from fairsilo.network.silo import answer
from fairsilo.network.table import read_rows
from fairsilo.network.wire import Ask
from fairsilo.question import Cells, Evaluate, NoisyColumns, NoisyCounts, Outcomes, Part
from tests.network.members import members
from tests.network.silos import make_town

SCHEMA = Schema(
    features=(
        Number(name="age", bounds=(0, 100)),
        Category(name="code", values=("1", "2", "3"), missing=True, other=True),
        Category(name="word", values=("NA", "True", "x"), missing=True, other=True),
    ),
    label="y",
    classes=("0", "1"),
    group="s",
    groups=("1", "2"),
)
CHARTER = FederationFile(
    table=SCHEMA,
    groups=("1", "2"),
    protected_class="1",
    split="part",
    silos=members("a", "b"),
    secure_aggregation=False,
    dp=Privacy(epsilon=1.0),
)
ENCODER = Encoder(SCHEMA, (Scaling(50.0, 20.0, True),))
ROWS = ["40,1,x,0,1,train", "41.5,2,NA,1,2,train", "1e1,,True,1,1,train", ",3,,0,2,train"]
ANYTHING = ["", "1", "1.0", "01", "2.5", "NA", "nan", "null", "text", "TRUE", "inf", "1e400", "-3"]
cells = st.sampled_from(ANYTHING) | st.text("ab1.-_ e", max_size=5)
any_row = st.tuples(cells, cells, cells, cells, cells, st.sampled_from(["train", "test", "", "?"]))


def read(folder: Path, rows: list[str]) -> tuple[Part, Part]:
    path = folder / "table.csv"
    path.write_text("\n".join(["age,code,word,y,s,part", *rows]) + "\n")
    own = Settings(name="a", federation=Path("unused"), data=path)
    return split_rows(read_rows(own, SCHEMA, CHARTER.split), CHARTER)


def contributions(part: Part) -> list[tuple[Any, ...]]:
    x = ENCODER.transform(part.frame)
    return [(*x[i], part.y[i], part.s[i]) for i in range(len(part.y))]


@pytest.mark.slow
@settings(max_examples=150)
@given(row=any_row)
def test_one_more_row_changes_no_other(tmp_path_factory: pytest.TempPathFactory, row: Any) -> None:
    folder = tmp_path_factory.mktemp("silo")
    before, after = (read(folder, rows) for rows in (ROWS, [*ROWS, ",".join(row)]))
    for one, other in zip(before, after, strict=True):
        assert contributions(other)[: len(one.y)] == contributions(one)
    assert sum(len(part.y) for part in after) - len(ROWS) in (0, 1)
    moved = bounded_sums(after[0].frame, SCHEMA) - bounded_sums(before[0].frame, SCHEMA)
    assert np.linalg.norm(moved) <= sensitivity(SCHEMA)


def test_a_cell_is_read_as_the_schema_spells_it(tmp_path: Path) -> None:
    train, test = read(
        tmp_path,
        [
            "1,1.0,NA,0.0,1.0,train",
            "nan,02,true,1,2, TRAIN ",
            "NA,NA,null,1,01,test",
            "x,?,,0,1,test",
            "1,1,x,2,1,train",
            "1,1,x,,1,train",
            "1,1,x,1,3,train",
            "1,1,x,1,1,later",
        ],
    )
    assert list(train.frame["code"]) == ["1", "2"]
    assert list(train.frame["word"]) == ["NA", "True"]
    assert (list(train.y), list(train.s)) == ([0, 1], [0, 1])
    np.testing.assert_array_equal(train.frame["age"], [1.0, np.nan])
    assert list(test.frame["code"].isna()) == [True, False]
    assert list(test.frame["word"].isna()) == [False, True], "null is no word for missing here"
    assert test.frame["age"].isna().all()
    assert len(test.y) == 2


@pytest.mark.slow
def test_a_silo_of_nobody_answers_with_noise_alone(tmp_path: Path) -> None:
    """A silo without any training row must not be recognisable, either."""
    town = make_town(tmp_path, rows=200, secure_aggregation=False, dp=Privacy(epsilon=8.0))
    path = town.folder / "silo0" / "table.csv"
    path.write_text(path.read_text().replace(",train\n", ",\n"))
    own, agreed = read_settings(town.settings("silo0")), town.agreed
    found = check_table(own, agreed)
    assert not found.problems
    assert "neither for training nor for testing" in " ".join(found.remarks)
    scalings = np.tile([0.0, 1.0, 0.0], len(agreed.table.numbers))
    theta = np.zeros(agreed.problem(scalings).model.size)
    private = (NoisyCounts(), Cells(theta, curvature=True), Outcomes(theta))
    for question in (NoisyColumns(), *private, Evaluate(theta, test_only=True)):
        encoded = question.kind != "noisy-columns"
        given = scalings if encoded else np.zeros(0)
        asked = Ask(question, 1, agreed.fingerprint, "fedfair", encoded, given, training="one")
        vector = answer(own, agreed, asked, {})
        assert np.isfinite(vector).all()
        assert len(vector)


def test_ordinary_tables_are_read_as_before(tmp_path: Path) -> None:
    frame = make_table(300, silos=2, missing=0.1, seed=3)
    frame["code"] = np.arange(300) % 2 + 10
    frame.to_csv(tmp_path / "t.csv", index=False)
    seen = read_table(tmp_path / "t.csv")
    schema = infer_schema(seen, label="label", group="group", exclude=["client"])
    coded = tuple(
        Category(name="code", values=("10", "11")) if f.name == "code" else f
        for f in schema.features
    )
    schema = schema.model_copy(update={"features": coded})
    declared = read_table(tmp_path / "t.csv", schema)
    assert list(declared.columns) == list(seen.columns)
    encoder = Encoder(schema, tuple(Scaling(0.0, 1.0, True) for _ in schema.numbers))
    np.testing.assert_allclose(encoder.transform(declared), encoder.transform(seen), rtol=1e-15)
