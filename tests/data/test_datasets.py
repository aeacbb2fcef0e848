"""The three data sets against the counts in the note that came with the files."""

import csv
import lzma
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairsilo.data import (
    DATASETS,
    Category,
    Encoder,
    EncoderSums,
    Number,
    build_labels,
    load,
    schema_of,
)
from fairsilo.data.drug import ANSWERS, SCORES
from fairsilo.errors import FairSiloError

Folder = Callable[[str], Path | None]

VARIANTS = [(name, variant) for name, d in DATASETS.items() for variant in d.variants]

COUNTS = {
    "adult": {
        ("Female", "<=50K"): 13026,
        ("Female", ">50K"): 1669,
        ("Male", "<=50K"): 20988,
        ("Male", ">50K"): 9539,
    },
    "compas": {
        ("African-American", "0"): 1514,
        ("African-American", "1"): 1661,
        ("Caucasian", "0"): 1281,
        ("Caucasian", "1"): 822,
    },
    "drug": {
        ("white", "not abuse"): 1330,
        ("white", "abuse"): 390,
        ("non-white", "not abuse"): 125,
        ("non-white", "abuse"): 40,
    },
}

WIDTHS = {
    ("adult", "default"): 104,
    # Five counts and age, and 2 + 3 + 2 + 2 categories.
    ("compas", "default"): 5 + 9,
    ("compas", "deciles"): 5 + 9 + 1,
    ("drug", "default"): 12,
    # 6 ages, 2 genders, 9 educations, 7 countries, 7 ethnicities, 7 scores.
    ("drug", "categories"): 31 + 7,
    ("drug", "onehot"): 31 + 49 + 42 + 35 + 41 + 41 + 10 + 11,
}


def encode(frame: pd.DataFrame, name: str, *, drop_group: bool = False) -> Encoder:
    schema = schema_of(name, frame, drop_group=drop_group)
    return Encoder.fit(schema, EncoderSums.of(frame, schema))


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_counts_and_width(name: str, variant: str, data_dir_of: Folder) -> None:
    dataset = DATASETS[name]
    frame = load(name, data_dir=data_dir_of(name), variant=variant)
    assert len(frame) == {"adult": 45222, "compas": 5278, "drug": 1885}[name] == dataset.rows
    counts = frame.groupby([dataset.group, dataset.label]).size()
    assert counts.to_dict() == COUNTS[name]
    assert not frame.isna().any(axis=None)

    encoder = encode(frame, name)
    x = encoder.transform(frame)
    assert x.shape == (dataset.rows, WIDTHS[name, variant])
    assert encoder.unseen(frame) == {}
    hot = [k for k, n in enumerate(encoder.feature_names) if "=" in n]
    categories = sum(isinstance(f, Category) for f in encoder.schema.features)
    np.testing.assert_array_equal(x[:, hot].sum(axis=1), categories)
    assert x[:, hot].any(axis=0).all(), "a declared value that never occurs"
    y, s = build_labels(frame, encoder.schema)
    assert (y == dataset.classes.index(dataset.protected_class)).sum() == sum(
        n for (_, label), n in COUNTS[name].items() if label == dataset.protected_class
    )
    assert set(s) == {0, 1}


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_label_is_no_feature_and_drop_group_hides_the_group(
    name: str, variant: str, data_dir_of: Folder
) -> None:
    dataset = DATASETS[name]
    frame = load(name, data_dir=data_dir_of(name), variant=variant)
    with_group = schema_of(name, frame)
    without = schema_of(name, frame, drop_group=True)
    assert dataset.label not in with_group.columns
    hidden = {"adult": "sex", "compas": "race", "drug": "ethnicity"}[name]
    assert set(with_group.columns) - set(without.columns) == {hidden}
    assert (without.group, without.groups) == (dataset.group, dataset.groups)


@pytest.mark.parametrize("name", DATASETS)
def test_promises_fit_together(name: str) -> None:
    d = DATASETS[name]
    assert d.train_rows + d.test_rows == d.rows
    assert d.train_rows % d.clients == 0
    assert d.protected_class in d.classes


def test_a_few_rows_have_the_schema_of_all() -> None:
    frame = load("adult")
    assert schema_of("adult", frame.head(3)) == schema_of("adult", frame)


def test_adult_rows_are_those_of_the_file() -> None:
    frame = load("adult")
    assert frame.iloc[0].to_list() == [
        *(39, "State-gov", 77516, "Bachelors", 13, "Never-married", "Adm-clerical"),
        *("Not-in-family", "White", "Male", 2174, 0, 40, "United-States", "<=50K"),
    ]
    # 30,162 complete rows come from adult.data; the next is the first of adult.test.
    assert frame.iloc[30162][["age", "workclass", "income"]].to_list() == [25, "Private", "<=50K"]
    numeric = {f.name for f in schema_of("adult", frame).features if isinstance(f, Number)}
    assert numeric == {
        *("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    }


def test_adult_is_shipped_as_published() -> None:
    folder = resources.files("fairsilo.data.adult")
    for file in DATASETS["adult"].files:
        content = lzma.decompress((folder / f"{file.name}.xz").read_bytes())
        assert len(content) == file.size
        assert file.matches(content)
        assert not file.matches(content[:-1])
    attribution = (folder / "ATTRIBUTION.md").read_text()
    for phrase in ("CC BY 4.0", "Becker", "Kohavi", "10.24432/C5XW20"):
        assert phrase in attribution


def test_compas_has_no_personal_and_no_leaking_column(raw_data_dir: Path) -> None:
    path = raw_data_dir / "compas-scores-two-years.csv"
    with path.open(newline="") as stream:
        header = next(csv.reader(stream))
    for variant in DATASETS["compas"].variants:
        columns = set(load("compas", data_dir=raw_data_dir, variant=variant).columns)
        personal = {"id", "name", "first", "last", "dob"}
        personal |= {c for c in header if c.endswith("case_number")}
        leaks = {"is_recid", "is_violent_recid", "event", "start", "end"}
        leaks |= {c for c in header if c.startswith(("r_", "vr_"))}
        assert len(personal) >= 8
        assert not columns & (personal | leaks)
        assert ("decile_score" in columns) == (variant == "deciles")


def test_compas_parses_only_what_it_needs(
    raw_data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    original = pd.read_csv

    def spy(*args: object, **options: object) -> pd.DataFrame:
        frame: pd.DataFrame = original(*args, **options)  # type: ignore[call-overload]
        parsed.extend(frame.columns)
        return frame

    monkeypatch.setattr(pd, "read_csv", spy)
    load("compas", data_dir=raw_data_dir)
    assert "race" in parsed
    assert not {"id", "name", "first", "last", "dob", "c_case_number"} & set(parsed)


def test_drug_words_match_the_published_counts(raw_data_dir: Path) -> None:
    numbers = load("drug", data_dir=raw_data_dir)
    words = load("drug", data_dir=raw_data_dir, variant="categories")
    assert words["ethnicity"].value_counts().to_dict() == {
        **{"White": 1720, "Other": 63, "Black": 33, "Asian": 26},
        **{"Mixed-White/Asian": 20, "Mixed-White/Black": 20, "Mixed-Black/Asian": 3},
    }
    assert (words["gender"] == "Male").sum() == 943
    assert ((words["ethnicity"] == "White") == (words["race"] == "white")).all()
    assert list(numbers.columns) == [*ANSWERS, *SCORES, "race", "vsa"]
    assert all(isinstance(f, Number) for f in schema_of("drug", numbers).features)


def test_unknown_names() -> None:
    with pytest.raises(FairSiloError, match="no data set 'adlut'; choose one of adult, compas"):
        load("adlut")
    with pytest.raises(FairSiloError, match="drug has no variant 'x'; choose one of default, cat"):
        load("drug", variant="x")


def test_a_missing_file_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRSILO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(FairSiloError, match=r"fairsilo data get compas.*FAIRSILO_DATA") as error:
        load("compas")
    assert str(tmp_path / "cache" / "fairsilo") in str(error.value)
    monkeypatch.setenv("FAIRSILO_DATA", str(tmp_path / "named"))
    with pytest.raises(FairSiloError, match=str(tmp_path / "named")):
        load("drug")
    with pytest.raises(FairSiloError, match=str(tmp_path / "given")):
        load("drug", data_dir=tmp_path / "given")


def test_a_changed_file_is_refused_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "compas-scores-two-years.csv").write_text("id,name\n1,jane roe\n")
    with pytest.raises(FairSiloError, match="not the published file") as error:
        load("compas", data_dir=tmp_path)
    assert "jane" not in str(error.value)
