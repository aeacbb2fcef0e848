"""Which setting of a method counts, and the models that were trained with it.

    test        one setting for all seeds, by the mean harmonic mean on the test rows: the paper's
    validation  one setting for all seeds, on a fifth of every client's training rows
    per-seed    every seed its own, on its own validation rows
    cv          one setting for all seeds, by five-fold cross-validation on the training rows

Whatever was chosen, the figures are those on test rows of models trained on all training rows. A
test row of one seed can be a validation row of another: only `per-seed` never saw a test row.
"""

import pandas as pd

from fairsilo.experiment.grid import FOLDS, SEEDS

FOLD_SPLITS = ("validation", *(f"fold {k + 1}" for k in range(1, FOLDS)))
"""The rows that a cross-validation tests on, by their name in the column `split`."""
SPLITS = {
    "test": ("test",),
    "validation": ("validation",),
    "per-seed": ("validation",),
    "cv": FOLD_SPLITS,
}
"""On which rows each selection chooses."""
WORDS = {
    "test": "on test rows (as the paper did)",
    "validation": "on validation rows",
    "per-seed": "on validation rows, for each seed by itself",
    "cv": f"by five-fold cross-validation (seeds 0 to {SEEDS[-1]})",
}


def chosen(table: pd.DataFrame, selection: str) -> pd.DataFrame:
    """The models of the chosen settings on the test rows, of every seed that was chosen for."""
    by_seed = settings_by_seed(table, selection)
    tested = table[table["split"] == "test"]
    return tested[tested["setting"] == tested["seed"].map(by_seed)]


def best_setting(table: pd.DataFrame, selection: str) -> float:
    """The one setting for all seeds; NaN if there is none."""
    by_seed = settings_by_seed(table, selection)
    return float("nan") if by_seed.empty else float(by_seed.iloc[0])


def settings_by_seed(table: pd.DataFrame, selection: str) -> pd.Series:
    """The chosen setting of every seed, by the harmonic mean, averaged over models and folds.

    A setting with a lost training (see `endings`) is not chosen; if there is no other, NaN.
    """
    score = scores(table, selection).drop(columns=lost_settings(table), errors="ignore")
    if score.empty:
        return pd.Series(float("nan"), index=score.index)
    if selection == "per-seed":
        return score.idxmax(axis=1)
    return pd.Series(score.mean().idxmax(), index=score.index)


def scores(table: pd.DataFrame, selection: str) -> pd.DataFrame:
    """The harmonic mean on the rows that are chosen on: a line per seed, a column per setting.

    A method with one setting has nothing to choose, and so needs no rows to choose on.
    """
    splits = SPLITS[selection] if table["setting"].nunique() > 1 else ("test",)
    rows = table[table["split"].isin(splits)]
    if selection == "cv":
        rows = rows[rows["seed"].isin(SEEDS)]
    folds = rows.groupby(["seed", "setting", "split"])["harmonic_mean"].mean()
    return folds.groupby(["seed", "setting"]).mean().unstack("setting")


def lost_settings(table: pd.DataFrame) -> list[float]:
    """The settings at which some training is lost."""
    return list(table.loc[table["harmonic_mean"].isna(), "setting"].unique())


def offers(table: pd.DataFrame, selection: str) -> bool:
    """Whether the part has the rows that the selection chooses on."""
    return set(SPLITS[selection]) <= set(table["split"])
