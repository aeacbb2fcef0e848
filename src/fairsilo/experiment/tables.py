"""Tables 1 and 2, with our number beside the paper's in each of the 78 cells.

Rows beyond these (methods that the paper does not have) leave the paper's columns empty.

Settings are chosen as `choice` says; the numbers are always those on test rows of models trained on
all training rows. EO, CEO and ST: mean and std over the models of all clients and seeds.
"""

from collections.abc import Sequence

import pandas as pd

from fairsilo.experiment.choice import SPLITS, lost_settings, offers
from fairsilo.experiment.endings import ending
from fairsilo.experiment.grid import OWN, TITLES, Cell, paper_tables, solver_of
from fairsilo.experiment.results import Results

METRICS = ("accuracy", "fairness", "harmonic_mean")
PATHS = {"fast": ("newton", "lbfgs"), "agp": ("agp",)}
"""The solvers of each path."""
MARK = 0.02
"""A harmonic mean this far from the paper's is marked."""
COLLAPSED = 0.53
"""A balanced accuracy below this is close to a constant predictor's."""


def ours(models: pd.DataFrame) -> dict[str, float]:
    """Mean and std over the chosen models, on the test rows, and 95 % intervals.

    `ours_opt` is the setting, or NaN where seeds have chosen different ones.
    """
    settings = models["setting"].unique()
    result = {"ours_opt": float(settings[0]) if len(settings) == 1 else float("nan")}
    result |= {f"ours_{name}": value for name, value in mean_std(models, METRICS).items()}
    ends = [f"{name}_{end}" for name in ("accuracy", "fairness") for end in ("low", "high")]
    for name in ("balanced_accuracy", *(end for end in ends if end in models)):
        result[f"ours_{name}"] = float(models[name].mean(skipna=False))
    return result


def mean_std(models: pd.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """Mean and standard deviation of figures over models; NaN if a model has none.

    One seed has no standard deviation: it is NaN, too.
    """
    found, several = {}, models["seed"].nunique() > 1
    for name in names:
        found[name] = float(models[name].mean(skipna=False))
        spread = float(models[name].std(ddof=0, skipna=False))
        found[f"{name}_std"] = spread if several else float("nan")
    return found


def collapsed(balanced: float) -> bool:
    """Balanced accuracy below 0.53: one rule for every method."""
    return balanced < COLLAPSED


def mark(gap: float) -> str:
    """A triangle if our harmonic mean is far above or below the paper's, else nothing."""
    if not abs(gap) > MARK:
        return ""
    return " \N{BLACK UP-POINTING TRIANGLE}" if gap > 0 else " \N{BLACK DOWN-POINTING TRIANGLE}"


def counts(found: pd.DataFrame) -> tuple[int, int]:
    """The numbers of cells in which FedFair is best or close to it, and near the paper."""
    return int(found["best_or_close"].sum()), int(found["near_paper"].sum())


def strictly(found: pd.DataFrame) -> int:
    """In how many cells FedFair is best, without a tolerance."""
    return int(found["best"].sum())


def build(results: Results) -> pd.DataFrame:
    """All finished parts, both solvers and all selections, beside the paper's numbers."""
    paper = paper_tables()
    rows = []
    for path in ("fast", "agp"):
        for cell in results.cells:
            rows += _cell_rows(results, path, cell, paper)
    return pd.DataFrame(rows)


def selections(results: Results, path: str, cell: Cell) -> list[str]:
    """The selections for which every part of the cell has the rows."""
    tables = [
        results.read(path, cell, method)
        for method in cell.methods
        if results.has(path, cell, method)
    ]
    choosing = [table for table in tables if table["setting"].nunique() > 1]
    return [name for name in SPLITS if all(offers(table, name) for table in choosing)]


def _cell_rows(
    results: Results, path: str, cell: Cell, paper: pd.DataFrame
) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for method in (*cell.methods, "constant"):
        if not results.has(path, cell, method):
            continue
        seeds = [set(one(path, cell, method)["seed"]) for one in (results.read, results.models)]
        if path == "agp" and method in OWN and seeds[0] == seeds[1]:
            continue  # the row is there already
        solver = "own" if method in OWN else solver_of(path, cell)[0].name
        solver = "none" if method == "constant" else solver
        table, optimum = results.models(path, cell, method), results.optimum(path, cell, method)
        printed = cell.rows(paper)
        printed = printed[printed["method"] == TITLES[method]]
        published = printed.iloc[0].to_dict() if len(printed) else {}
        for selection in selections(results, path, cell):
            models = results.chosen(path, cell, method, selection)
            own: dict[str, object] = {**ours(models)}
            own |= ending(models, optimum)
            own["settings_diverged"] = len(lost_settings(table))
            own["seeds"] = models["seed"].nunique()
            if table["setting"].nunique() == 1:
                own["ours_opt"] = float("nan")
            rows.append(
                {
                    "setting": cell.setting,
                    "dataset": cell.dataset,
                    "model": cell.model,
                    "method": TITLES[method],
                    **{
                        name: published.get(name)
                        for name in paper.columns
                        if name not in ("setting", "dataset", "model", "method")
                    },
                    **own,
                    "solver": solver,
                    "selection": selection,
                    "collapsed": collapsed(float(str(own["ours_balanced_accuracy"]))),
                }
            )
    return rows


def of_path(tables: pd.DataFrame, path: str) -> pd.DataFrame:
    """The rows of a path, and those of methods without a choice of solver over the same seeds."""
    mine = tables[tables["solver"].isin(PATHS[path])]
    keys = ["setting", "dataset", "model", "selection"]
    seeds = mine.groupby(keys)["seeds"].max().rename("path_seeds").reset_index()
    own = tables[tables["solver"].isin(("own", "none"))].reset_index().merge(seeds, on=keys)
    own["off"] = (own["seeds"] - own["path_seeds"]).abs()
    near = own.sort_values("off", kind="stable").drop_duplicates([*keys, "method"])["index"]
    return tables.loc[sorted([*mine.index, *near])]


def verdict(tables: pd.DataFrame, path: str, selection: str = "test") -> pd.DataFrame:
    """Per cell: FedFair's harmonic mean, the best other that is not collapsed, the paper's.

    Where FedFair collapsed itself it is not the best, whatever its harmonic mean.
    """
    chosen = of_path(tables, path)
    chosen = chosen[(chosen["selection"] == selection) & (chosen["solver"] != "none")]
    rows = []
    for (data, model, setting), part in chosen.groupby(["dataset", "model", "setting"]):
        mine = part[part["method"] == "FedFair"]
        rivals = part[(part["method"] != "FedFair") & ~part["collapsed"]]
        rivals = rivals.dropna(subset="ours_harmonic_mean")
        if mine.empty or rivals.empty:
            continue
        # Of an own table the paper has none.
        printed = float(pd.to_numeric(mine["harmonic_mean"]).iloc[0])
        best = rivals.iloc[int(rivals["ours_harmonic_mean"].to_numpy().argmax())]
        own, stands = float(mine["ours_harmonic_mean"].iloc[0]), not mine["collapsed"].iloc[0]
        rival = float(best["ours_harmonic_mean"])
        rows.append(
            {
                "dataset": data,
                "model": model,
                "setting": setting,
                "fedfair": own,
                "paper": printed,
                "best_other": best["method"],
                "best_other_hm": rival,
                "best": stands and own >= rival,
                "best_or_close": stands and own >= rival - 0.005,
                "near_paper": own >= printed - 0.02,
            }
        )
    return pd.DataFrame(rows)
