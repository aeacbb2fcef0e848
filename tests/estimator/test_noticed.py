"""A fit says of its rows what the command line says of a file, in the words of Python."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairsilo import FedFairClassifier
from fairsilo.errors import FairSiloWarning
from tests.estimator.data import table

T = table(400, categories=1)
X = T.X.drop(columns="group")


def said(X: Any, **extra: Any) -> list[str]:
    """What fit warns of."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FedFairClassifier(0.1).fit(X, T.y, **{**T.extra, **extra})
    assert all(issubclass(one.category, FairSiloWarning) for one in told)
    assert all(one.filename == __file__ for one in told)
    return [str(one.message) for one in told]


def test_of_honest_rows_nothing_is_said() -> None:
    assert said(X) == []


def test_the_sensitive_column_inside_x() -> None:
    [words] = said(T.X)
    assert words.startswith("the model sees the group (group): trained without, accuracy is 0.")
    assert words.endswith("apart on the training rows; if it is not to, leave it out of X")
    clf, blind = (FedFairClassifier(0.1).fit(x, T.y, **T.extra) for x in (T.X, X))
    both = f"accuracy is {blind.score(X, T.y):.4f} instead of {clf.score(T.X, T.y):.4f}"
    assert both in words
    # A network takes long, and of the group alone nothing is left.
    brief = "the model sees the group \\(group\\); if it is not to, leave it out of X"
    assert any(re.match(brief, one) for one in said(T.X[["group"]]))
    with pytest.warns(FairSiloWarning, match=brief):
        FedFairClassifier(0.1, model="mlp", early_stopping=True).fit(T.X, T.y, **T.extra)
    [words] = said(T.X, sensitive_features=T.group.to_numpy())
    assert words.startswith("column 'group' says the same as the group")


def test_group_and_client_in_other_words() -> None:
    gender = T.group.map({"g0": "w", "g1": "m"})
    branch = T.client.str.replace("silo", "branch ")
    told = said(X.assign(gender=gender, branch=branch))
    assert told == [
        "column 'gender' says the same as the group, column 'group': if the model is not to know "
        "it, leave it out of X",
        "column 'branch' says the same as who holds the row, column 'clients': if the model is not "
        "to know it, leave it out of X",
    ]


def test_the_remedy_for_a_column_whose_name_has_spaces() -> None:
    [words] = said(X.assign(**{"sex at birth": T.group.map({"g0": "w", "g1": "m"})}))
    assert words.endswith("if the model is not to know it, leave it out of X")
    [words] = said(X.assign(**{"which part": ["train", "test"] * (len(X) // 2)}))
    assert words == "column 'which part' says which rows are for testing: it was left out"


def test_whole_numbers_that_may_be_codes() -> None:
    job, kids = np.arange(400) % 5, np.arange(400) % 3
    [words] = said(X.assign(job=job))
    assert "'job' has 5 different whole numbers" in words
    assert words.endswith("if they are codes, give it the dtype category, else float")
    [words] = said(X.assign(job=job, kids=kids))
    assert words.endswith("those that are codes give the dtype category, the others float")
    assert said(X.assign(job=job.astype(float))) == []
    assert said(X.assign(job=pd.Categorical(job))) == []
    # The numbers of an array have no other type.
    assert said(np.column_stack([X["x0"], X["x1"], job])) == []


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (10**6 + 77 * np.arange(400) ** 2, "all different"),
        ([f"week {k % 80}" for k in range(400)], "80 different texts in 400 rows"),
        ([20150101 + k % 28 for k in range(400)], "yyyymmdd"),
        (["train", "test"] * 200, "says which rows are for testing: it was left out"),
    ],
)
def test_no_remedy_of_the_command_line(cells: Any, words: str) -> None:
    [told] = said(X.assign(more=cells))
    assert words in told
    assert "`" not in told


def test_names_that_are_probably_the_same() -> None:
    first = np.arange(len(X)) % 10 == 0
    group = T.group.where(~first, T.group.str.upper())
    told = said(X, sensitive_features=group, clients=T.client.where(~first, T.client + " "))
    assert [one for one in told if "'g0'" in one] == [
        "sensitive_features: the values 'G0' and 'g0'; 'G1' and 'g1' differ only in blanks or "
        "case: if they are the same, make them alike"
    ]
    assert any(one.startswith("clients: the values 'silo0' and 'silo0 '") for one in told)


def test_a_useless_model_says_its_auc() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=3000)})
    y = rng.random(3000) < 0.05 * np.exp(0.5 * rows["x"])
    group = pd.Series(rng.choice(["f", "m"], 3000), name="sex")
    with pytest.warns(FairSiloWarning, match=r"hardly better .* .AUC 0\.\d+, with 95% confidence"):
        FedFairClassifier(0.5).fit(rows, y, sensitive_features=group)


def test_a_report_says_that_the_model_sees_the_group() -> None:
    with pytest.warns(FairSiloWarning, match="the model sees the group"):
        clf = FedFairClassifier(0.1).fit(T.X, T.y, **T.extra)
    card = clf.card(T.X, T.y, sensitive_features=T.group)
    assert "The model sees the group (group)" in card


def test_a_fit_tells_the_logger_of_its_rounds(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="fairsilo"):
        clf = FedFairClassifier(0.1).fit(T.X, T.y, **T.extra)
    rounds = [one for one in caplog.messages if one.startswith("round ")]
    # Not of the training without the group, which is made to compare.
    assert len(rounds) == clf.n_iter_
    assert f"fedfair: {clf.n_iter_} rounds, converged" in " ".join(caplog.messages)
