"""FedFair against each rival, seed by seed: tests.csv and what follows from it in words.

The seeds split the same table again and again, so that their training rows overlap and their
results are correlated: an ordinary paired t test, which takes them for independent, is too sure.
Nadeau and Bengio's corrected one (2003) widens the variance by the share of test to training rows:

    t = mean(d) / sqrt( (1/J + n_test / n_train) var(d) )       with J - 1 degrees of freedom

over the differences d of the harmonic mean on J seeds; where all are the same, and not zero, there
is no test. `p_holm` is Holm's correction over the cells of one rival, path and selection. A cell in
which either of the two collapsed supports nothing.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy import stats

from fairsilo.arrays import Floats
from fairsilo.data import DATASETS
from fairsilo.experiment.grid import OWN, TITLES, Cell, solver_of
from fairsilo.experiment.results import Results
from fairsilo.experiment.tables import METRICS, PATHS, collapsed, selections

LEVEL = 0.95


def corrected(d: Floats, ratio: float, level: float = LEVEL) -> tuple[float, float, float, float]:
    """Mean, interval and p of paired differences; `ratio` is test rows per training row."""
    mean, count = float(np.mean(d)), len(d)
    if count < 2:
        return mean, float("nan"), float("nan"), float("nan")
    error = float(np.sqrt((1 / count + ratio) * np.var(d, ddof=1)))
    half = float(stats.t.ppf((1 + level) / 2, count - 1)) * error
    if error <= 1e-12 * abs(mean):
        unknown = float("nan")
        return (mean, unknown, unknown, unknown) if mean else (0.0, 0.0, 0.0, 1.0)
    return mean, mean - half, mean + half, float(2 * stats.t.sf(abs(mean) / error, count - 1))


def holm(p: Floats) -> Floats:
    """Holm's adjusted p values."""
    order = np.argsort(p)
    steps = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(steps, 1)
    return adjusted


def paired_tests(results: Results) -> pd.DataFrame:
    """Each path, selection, cell and rival: the difference of harmonic means over the seeds."""
    rows: list[dict[str, object]] = []
    for path in PATHS:
        for cell in results.cells:
            if results.has(path, cell, "fedfair"):
                rows += _cell_tests(results, path, cell)
    found = pd.DataFrame(rows)
    if len(found):
        stand = found[~found["fedfair_collapsed"] & ~found["rival_collapsed"]]
        family = stand.groupby(["path", "selection", "rival"])["p"]
        found["p_holm"] = family.transform(lambda p: holm(p.to_numpy()))
        found["finding"] = [_finding(row) for row in found.to_dict("records")]
    return found


def _cell_tests(results: Results, path: str, cell: Cell) -> Iterator[dict[str, object]]:
    share = _test_share(cell)
    if share is None:
        return
    for selection in selections(results, path, cell):
        mine = results.chosen(path, cell, "fedfair", selection)
        for rival in cell.methods:
            if rival == "fedfair" or not results.has(path, cell, rival):
                continue
            other = results.chosen(path, cell, rival, selection)
            both = pd.concat([_by_seed(mine), _by_seed(other)], axis=1).dropna().to_numpy()
            if not len(both):
                continue
            values = corrected(both[:, 0] - both[:, 1], share)
            yield {
                "path": path,
                "selection": selection,
                "setting": cell.setting,
                "dataset": cell.dataset,
                "model": cell.model,
                "rival": TITLES[rival],
                "seeds": len(both),
                **dict(zip(("difference", "low", "high", "p"), values, strict=True)),
                "fedfair_collapsed": _flat(mine),
                "rival_collapsed": _flat(other),
            }


def _test_share(cell: Cell) -> float | None:
    """Test rows per training row; None where the seeds of an own table all have the same."""
    if cell.study is not None:
        return cell.study.test_share
    known = DATASETS[cell.data]
    return known.test_rows / known.train_rows


def _by_seed(models: pd.DataFrame) -> pd.Series:
    return models.groupby("seed")["harmonic_mean"].mean()


def _flat(models: pd.DataFrame) -> bool:
    return collapsed(float(models["balanced_accuracy"].mean(skipna=False)))


def _finding(row: dict[object, object]) -> str:
    if row["fedfair_collapsed"] or row["rival_collapsed"]:
        return "collapsed"
    if not float(str(row["p_holm"])) < 1 - LEVEL:
        return "open"
    return "better" if float(str(row["difference"])) > 0 else "worse"


def seeds_table(results: Results) -> pd.DataFrame:
    """One line per seed, method and setting: figures on test rows, and what was chosen by."""
    every = []
    for path in PATHS:
        for cell in results.cells:
            for method in cell.methods:
                if results.has(path, cell, method) and not (path == "agp" and method in OWN):
                    every.append(_seed_rows(results, path, cell, method))
    return pd.concat(every, ignore_index=True) if every else pd.DataFrame()


def _seed_rows(results: Results, path: str, cell: Cell, method: str) -> pd.DataFrame:
    table = results.models(path, cell, method)
    keys = ["seed", "setting"]
    by = table[table["split"] == "test"].groupby(keys)
    figures = by[["accuracy", "balanced_accuracy", *METRICS[1:]]].mean()
    if "status" in table:
        figures["status"] = by["status"].first()
    folds = table.groupby([*keys, "split"])["harmonic_mean"].mean().unstack("split")
    figures["validation_harmonic_mean"] = folds.get("validation")
    named = [name for name in folds if name != "test"]
    if len(named) > 1:
        figures["cv_harmonic_mean"] = folds[named].mean(axis=1, skipna=False)
    lines = figures.reset_index().rename(columns={"setting": "opt"})
    solver = "own" if method in OWN else solver_of(path, cell)[0].name
    head = {"setting": cell.setting, "dataset": cell.dataset, "model": cell.model}
    head |= {"method": TITLES[method], "solver": solver}
    for place, (name, value) in enumerate(head.items()):
        lines.insert(place, name, value)
    return lines
