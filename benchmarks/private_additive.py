"""Additive models under differential privacy: `python -m benchmarks.private_additive`.

ADULT as published, 30,162 rows to train and 15,060 to test, all training rows at one place. Ours,
and InterpretML's DPExplainableBoostingClassifier, with the same declared ranges; a seed is a draw
of the noise. `dp-ebm` has the settings that its authors chose, `dp-ebm-tuned` those that did best
on the validation rows on which ours were chosen, a fifth of the training rows. `additive-limited`
has `epsilon` 0.05 between women and men. What is measured is stored, and not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.additive import PACKAGES, deo, keep, stored, table_of
from benchmarks.arena import python_of
from fairsilo import FedFairClassifier
from fairsilo.arrays import Floats
from fairsilo.data import DATASETS

RESULTS = Path(__file__).parent / "results" / "private_additive.json"
FILE = Path(__file__).parent / "contestants" / "dp_ebm.py"
TRAINING = 30_162
"""The first rows, of the published file adult.data; the others are those of adult.test."""
EPSILONS = (1.0, 2.0, 4.0, 8.0)
OURS: dict[str, dict[str, Any]] = {
    "additive": {"model": "additive", "method": "fedavg"},
    "additive-limited": {"model": "additive", "epsilon": 0.05},
}
NAMES = ("learning_rate", "max_leaves", "max_bins")
TUNED = {1.0: (0.1, 12, 64), 2.0: (0.1, 12, 128), 4.0: (0.1, 12, 128), 8.0: (0.2, 12, 128)}
"""Of learning rates 0.1 and 0.2, 6, 12 and 24 leaves, 64 and 128 bins the best of three seeds,
after a coarse search; ours have the same settings with every budget."""
PEERS: dict[str, dict[float, dict[str, Any]]] = {
    "dp-ebm": {},
    "dp-ebm-tuned": {one: dict(zip(NAMES, values, strict=True)) for one, values in TUNED.items()},
}
FIGURES = ("accuracy", "auc", "log_loss", "deo")
Line = dict[str, Any]


def ours(name: str, budget: float, train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Probabilities of the test rows."""
    known = DATASETS["adult"]
    declared = {**known.bounds, **{one: list(all_) for one, all_ in known.vocabularies.items()}}
    features = [str(one) for one in train if one not in ("y", "group", "client")]
    model = FedFairClassifier(
        **OURS[name], dp_epsilon=budget, classes=[0, 1], groups=list(known.groups),
        bounds={one: declared[one] for one in features},
    )  # fmt: skip
    model.fit(train[features], train["y"], sensitive_features=train["group"])
    found: Floats = model.predict_proba(test[features])[:, 1]
    return found


def theirs(
    name: str, seed: int, budgets: Sequence[float], train: pd.DataFrame, test: pd.DataFrame
) -> dict[str, Floats]:
    """The same of a peer, for every budget, and its CPU seconds."""
    python = python_of(PACKAGES["ebm"], "ebm")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as scratch:
        for part, rows in (("train", train), ("test", test)):
            rows.to_parquet(Path(scratch) / f"{part}.parquet")
        settings = {one: PEERS[name].get(one, {}) for one in budgets}
        asked = {"seed": seed, "settings": settings, "bounds": DATASETS["adult"].bounds}
        (Path(scratch) / "asked.json").write_text(json.dumps(asked))
        subprocess.run([python, str(FILE), scratch], check=True, env=environment)
        with np.load(Path(scratch) / "found.npz") as found:
            return dict(found)


def measured(test: pd.DataFrame, p: Floats) -> Line:
    """The figures of probabilities of the test rows."""
    return {
        "accuracy": float(np.mean((p > 0.5) == test["y"])),
        "auc": float(roc_auc_score(test["y"], p)),
        "log_loss": float(log_loss(test["y"], p)),
        "deo": deo(test, np.asarray(p > 0.5, np.float64)),
    }


def summarise(lines: Sequence[Line]) -> pd.DataFrame:
    """Means over the seeds with their standard errors."""
    frame = pd.DataFrame(lines).sort_values("budget", kind="stable")
    grouped = frame.groupby(["budget", "model"], sort=False)
    mean, error = grouped[list(FIGURES)].mean(), grouped[list(FIGURES)].sem()
    shown = {
        one: [f"{m:.4f} ({e:.4f})" for m, e in zip(mean[one], error[one], strict=True)]
        for one in FIGURES
    }
    whole = pd.DataFrame(shown, index=mean.index)
    seconds, seeds = grouped["cpu_seconds"].mean().round(1), grouped["seed"].nunique()
    return whole.assign(cpu_seconds=seconds, seeds=seeds).reset_index()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is not yet known, and print all."""
    names = [*OURS, *PEERS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=names, choices=names)
    parser.add_argument("--budgets", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    frame = table_of("adult", 0, 0)
    train, test = frame[:TRAINING], frame[TRAINING:].reset_index(drop=True)
    known = {(one["model"], one["budget"], one["seed"]) for one in stored(given.out)}

    def note(name: str, budget: float, seed: int, p: Floats, seconds: float) -> None:
        line = {"model": name, "budget": budget, "seed": seed, **measured(test, p)}
        keep(given.out, line | {"cpu_seconds": seconds}, ("model", "budget", "seed"))

    for seed, name in product(range(given.seeds), given.models):
        asked = [one for one in given.budgets if (name, one, seed) not in known]
        if name in PEERS and asked:
            found = theirs(name, seed, asked, train, test)
            for budget in asked:
                seconds = float(found[f"seconds/{budget}"])
                note(name, budget, seed, found[str(budget)], seconds)
        for budget in asked if name in OURS else ():
            start = time.process_time()
            p = ours(name, budget, train, test)
            note(name, budget, seed, p, time.process_time() - start)
    print(summarise(stored(given.out)).to_string(index=False))


if __name__ == "__main__":
    main()
