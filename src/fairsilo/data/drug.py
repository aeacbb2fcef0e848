"""DRUG: has a person ever abused volatile substances (an online survey, 2011 to 2012).

The publisher turned every answer into a number. The default keeps these numbers; the variants
turn them back into the answers.
"""

import io
from collections.abc import Mapping

import pandas as pd

from fairsilo.data.source import DataSet, RawFile

ANSWERS: dict[str, dict[float, str]] = {
    "age": {
        **{-0.95197: "18-24", -0.07854: "25-34", 0.49788: "35-44"},
        **{1.09449: "45-54", 1.82213: "55-64", 2.59171: "65+"},
    },
    "gender": {-0.48246: "Male", 0.48246: "Female"},
    "education": {
        -2.43591: "Left school before 16 years",
        -1.7379: "Left school at 16 years",
        -1.43719: "Left school at 17 years",
        -1.22751: "Left school at 18 years",
        -0.61113: "Some college or university, no certificate or degree",
        -0.05921: "Professional certificate or diploma",
        0.45468: "University degree",
        1.16365: "Masters degree",
        1.98437: "Doctorate degree",
    },
    "country": {
        **{-0.57009: "USA", -0.46841: "New Zealand", -0.28519: "Other", -0.09765: "Australia"},
        **{0.21128: "Republic of Ireland", 0.24923: "Canada", 0.96082: "UK"},
    },
    "ethnicity": {
        **{-1.10702: "Black", -0.50212: "Asian", -0.31685: "White", 0.1144: "Other"},
        **{-0.22166: "Mixed-White/Black", 0.126: "Mixed-White/Asian", 1.90725: "Mixed-Black/Asian"},
    },
}
"""What the published numbers of the five personal columns stand for."""

SCORES = ("nscore", "escore", "oscore", "ascore", "cscore", "impulsive", "ss")
"""The seven personality scores."""

WHITE = -0.31685
VSA = 31
"""Position of the answer on volatile substances, the last of 19 substances."""

FILE = RawFile(
    "drug_consumption.data",
    346695,
    "90b8cf500b07ad455baf9fe1dc519998c75a1df6d87f6bd7069176f0826ea8c1",
)


def read(raw: Mapping[str, bytes], variant: str) -> pd.DataFrame:
    """Read the twelve features, the group `race` (white, non-white) and the label `vsa`.

    Variant `categories` has the five personal columns as words, `onehot` the scores as texts too.
    """
    names = [*ANSWERS, *SCORES, "vsa"]
    # Column 0 is the number of the participant.
    positions = [*range(1, len(names)), VSA]
    frame = pd.read_csv(io.BytesIO(raw[FILE.name]), header=None, usecols=positions, dtype=str)
    frame.columns = pd.Index(names)
    # Parsed from text, so that every number is the nearest float and equals its literal.
    frame = frame.astype(dict.fromkeys(names[:-1], float))
    race = (frame["ethnicity"] == WHITE).map({True: "white", False: "non-white"})
    frame.insert(len(names) - 1, "race", race)
    frame["vsa"] = (frame["vsa"] == "CL0").map({True: "not abuse", False: "abuse"})
    if variant != "default":
        for column, words in ANSWERS.items():
            frame[column] = frame[column].map(words)
    if variant == "onehot":
        frame = frame.astype(dict.fromkeys(SCORES, str))
    return frame


DRUG = DataSet(
    name="drug",
    title="DRUG",
    label="vsa",
    classes=("not abuse", "abuse"),
    protected_class="not abuse",
    # Not the published `ethnicity`: that is a feature and distinguishes seven groups.
    group="race",
    groups=("non-white", "white"),
    rows=1885,
    clients=10,
    train_rows=1600,
    test_rows=285,
    license="CC BY 4.0",
    source="Fehrman, Egan and Mirkes (2015), UCI Machine Learning Repository, doi 10.24432/C5TC7S",
    url="https://archive.ics.uci.edu/static/public/373/drug+consumption+quantified.zip",
    files=(FILE,),
    read=read,
    group_features=("ethnicity",),
    vocabularies={column: tuple(words.values()) for column, words in ANSWERS.items()},
    # All published numbers are standardised scores and lie within these bounds.
    bounds=dict.fromkeys((*ANSWERS, *SCORES), (-4.0, 4.0)),
    variants=("default", "categories", "onehot"),
)
"""All rows of the survey; abuse is any answer but "never used"."""
