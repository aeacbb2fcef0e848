"""ADULT: does a person earn more than 50,000 dollars a year (US census of 1994)."""

import io
from collections.abc import Mapping

import pandas as pd

from fairsilo.data.adult.words import VOCABULARIES
from fairsilo.data.source import DataSet, RawFile

COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation"),
    *("relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week"),
    *("native-country", "income"),
)
"""The columns of the published files, which have no header line."""

TRAIN = RawFile(
    "adult.data", 3974305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
)
TEST = RawFile(
    "adult.test", 2003153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"
)


def read(raw: Mapping[str, bytes], variant: str) -> pd.DataFrame:
    """Put both files together and drop every row with a `?`; duplicates stay."""
    first = _parse(raw[TRAIN.name], skip=0)
    # Line 1 of adult.test is a comment, and its labels end with a full stop.
    second = _parse(raw[TEST.name], skip=1)
    frame = pd.concat([first, second], ignore_index=True).dropna()
    frame["income"] = frame["income"].str.rstrip(".")
    return frame


def _parse(content: bytes, skip: int) -> pd.DataFrame:
    return pd.read_csv(
        io.BytesIO(content),
        names=list(COLUMNS),
        skiprows=skip,
        skipinitialspace=True,
        keep_default_na=False,
        na_values=["?"],
    )


ADULT = DataSet(
    name="adult",
    title="ADULT",
    label="income",
    classes=("<=50K", ">50K"),
    protected_class=">50K",
    group="sex",
    groups=("Female", "Male"),
    rows=45222,
    clients=50,
    train_rows=40000,
    test_rows=5222,
    license="CC BY 4.0",
    source="Becker and Kohavi (1996), UCI Machine Learning Repository, doi 10.24432/C5XW20",
    url="https://archive.ics.uci.edu/static/public/2/adult.zip",
    files=(TRAIN, TEST),
    read=read,
    group_features=("sex",),
    vocabularies=VOCABULARIES,
    bounds={
        "age": (16, 100),
        "fnlwgt": (0, 1_500_000),
        "education-num": (1, 16),
        "capital-gain": (0, 100_000),
        "capital-loss": (0, 5_000),
        "hours-per-week": (0, 100),
    },
    shipped=True,
)
"""The data set as the paper uses it: 14 features, 104 encoded columns."""
