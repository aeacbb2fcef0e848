"""COMPAS: is a defendant charged again within two years (Broward County, Florida).

The published file has names, birth dates and case numbers of real people. Only the columns named
here are ever parsed, so nothing else can reach a table, a model, a report or an error message.
"""

import io
from collections.abc import Mapping

import pandas as pd

from fairsilo.data.source import DataSet, RawFile

FEATURES = (
    *("sex", "age", "age_cat", "race", "juv_fel_count", "juv_misd_count", "juv_other_count"),
    *("priors_count", "c_charge_degree"),
)
"""The features; none says what happened after the screening, which would leak the label."""

FILTERS = ("days_b_screening_arrest", "is_recid", "score_text")
"""Columns that ProPublica's filter reads; they are dropped afterwards."""

FILE = RawFile(
    "compas-scores-two-years.csv",
    2546489,
    "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
)


def read(raw: Mapping[str, bytes], variant: str) -> pd.DataFrame:
    """Apply ProPublica's filter and keep two races; variant `deciles` adds the COMPAS score."""
    features = [*FEATURES, *(["decile_score"] if variant == "deciles" else [])]
    frame = pd.read_csv(
        io.BytesIO(raw[FILE.name]),
        usecols=[*features, *FILTERS, "two_year_recid"],
        # "N/A" is a value of score_text that the filter looks for, not an empty cell.
        keep_default_na=False,
        na_values=[""],
    )
    keep = (
        frame["days_b_screening_arrest"].between(-30, 30)
        & (frame["is_recid"] != -1)
        & (frame["c_charge_degree"] != "O")
        & (frame["score_text"] != "N/A")
        & frame["race"].isin(COMPAS.groups)
    )
    frame = frame.loc[keep, [*features, "two_year_recid"]]
    return frame.astype({"two_year_recid": str})


COMPAS = DataSet(
    name="compas",
    title="COMPAS",
    label="two_year_recid",
    classes=("0", "1"),
    protected_class="0",
    group="race",
    groups=("African-American", "Caucasian"),
    rows=5278,
    clients=20,
    train_rows=4800,
    test_rows=478,
    license="none given by the publisher; personal data, do not pass on",
    source="ProPublica, repository propublica/compas-analysis (2017)",
    url="https://raw.githubusercontent.com/propublica/compas-analysis/"
    "bafff5da3f2e45eca6c2d5055faad269defd135a/compas-scores-two-years.csv",
    files=(FILE,),
    read=read,
    group_features=("race",),
    vocabularies={
        "sex": ("Female", "Male"),
        "age_cat": ("25 - 45", "Greater than 45", "Less than 25"),
        "race": ("African-American", "Caucasian"),
        "c_charge_degree": ("F", "M"),
    },
    bounds={
        "age": (18, 100),
        "juv_fel_count": (0, 10),
        "juv_misd_count": (0, 10),
        "juv_other_count": (0, 10),
        "priors_count": (0, 40),
        "decile_score": (1, 10),
    },
    variants=("default", "deciles"),
)
"""The data set after the filter, with nine features."""
