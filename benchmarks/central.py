"""FedFair and thresholds against what a user would do if the rows could move: fairlearn.

    python -m benchmarks.central                        # all: a quarter of an hour of computing
    python -m benchmarks.central --data compas --seeds 3 --out /tmp/central

All methods get the same encoded rows: 80 % of the training rows to train on, the rest (a share of
every client's, as in `fairsilo compare`) to pick a setting on, and the test rows. Of ACSIncome
100,000 rows are drawn for the first two, and all others test. The setting is the most accurate one
whose difference of true-positive rates (DEO) on the validation rows is at most 0.02, or if there is
none, the one with the smallest DEO. fairlearn gets the rows as a sparse matrix, by their numbers,
since it takes none itself. CPU seconds are for all settings together, medians over the seeds. What
was measured is kept in experiments/central, and is not measured again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import ExponentiatedGradient, TruePositiveRateParity
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from benchmarks.promises import whole
from fairsilo.arrays import Ints
from fairsilo.coded import Coded, Table, values_of
from fairsilo.engine import Pooled
from fairsilo.evaluate.metrics import accuracy, rate_gap
from fairsilo.evaluate.tally import Tally
from fairsilo.experiment.cell import hold_out
from fairsilo.fairness import Constraint
from fairsilo.method.fedavg import fedavg
from fairsilo.method.target import reach
from fairsilo.method.thresholds import decide
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import Predictor
from fairsilo.question import Problem
from fairsilo.run.options import Options
from fairsilo.run.penalty import first_penalty
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import plan

RESULTS = Path(__file__).parents[1] / "experiments" / "central"
SEEDS = {"adult": 20, "compas": 20, "acs": 5}
ROWS = 100_000
"""Of ACSIncome, to train on and to pick a setting on."""
CLIENTS = 10
Line = dict[str, Any]
WANTED = 0.02
LIMITS = (0.01, 0.02, 0.03, 0.04)
"""The settings of every method: how far apart two groups' rates may be on the training rows."""

Rows = tuple[Table, Ints, Ints]
"""x, y and group."""
Predict = Callable[[str], Ints]
"""From a part of the rows to labels, 1 for the protected class."""


@dataclass(frozen=True)
class Split:
    """The rows of one seed: those of a training and its validation, and the test rows."""

    held: Prepared
    test: Rows

    @property
    def protected(self) -> int:
        """The index of the protected class."""
        return self.held.schema.classes.index(self.held.protected_class)

    @cached_property
    def parts(self) -> dict[str, Rows]:
        """The rows to train on, to pick a setting on and to test on."""
        rows, held = self.held.federation, self.held
        return {
            "train": (rows.x, rows.y, rows.s),
            "validation": (held.test_x, held.test_y, held.test_s),
            "test": self.test,
        }

    @cached_property
    def matrix(self) -> Any:
        """All parts, one below the other."""
        return sparse.vstack([as_sparse(x) for x, _, _ in self.parts.values()], format="csr")

    def numbers(self, part: str) -> Ints:
        """The rows of a part in that matrix, as a column."""
        sizes = [len(y) for _, y, _ in self.parts.values()]
        at = list(self.parts).index(part)
        return np.arange(sum(sizes[:at]), sum(sizes[: at + 1]))[:, None]

    @property
    def fitting(self) -> dict[str, Any]:
        """What fairlearn fits."""
        _, y, s = self.parts["train"]
        truth = (y == self.protected).astype(np.int64)
        return {"X": self.numbers("train"), "y": truth, "sensitive_features": s}

    def logistic(self) -> Any:
        """scikit-learn's logistic regression, of the rows with these numbers."""
        matrix = self.matrix
        look_up = FunctionTransformer(lambda numbers: matrix[numbers[:, 0]])
        return make_pipeline(look_up, LogisticRegression(solver="liblinear"))

    def posed(self) -> tuple[Problem, Pooled]:
        """Ours, the rows divided among their clients; the penalty is scikit-learn's default."""
        problem, rows = plan(Options(data=""), self.held), self.held.federation
        penalty = first_penalty(self.held, problem, rows.rows)
        return replace(problem, penalty=penalty), Pooled(rows)

    def says(self, model: Predictor) -> Predict:
        """The labels of a model of ours."""

        def predict(part: str) -> Ints:
            x, _, s = self.parts[part]
            return np.asarray(model.labels(x, s, 0) == self.protected, np.int64)

        return predict


def as_sparse(x: Table) -> Any:
    """The matrix of coded rows."""
    if not isinstance(x, Coded):
        return sparse.csr_matrix(x)
    every = np.arange(len(x))
    numbers = [
        (every, np.full(len(x), at), x.numbers[:, k]) for k, at in enumerate(x.layout.numbers)
    ]
    hot = []
    for (start, width), values in zip(x.layout.categories, values_of(x), strict=True):
        there = every[values < width]
        hot.append((there, start + values[there], np.ones(len(there))))
    row, column, value = (np.concatenate(one) for one in zip(*numbers, *hot, strict=True))
    return sparse.csr_matrix((value, (row, column)), shape=x.shape)


def fedfair(split: Split) -> Iterator[tuple[float, Predict]]:
    """FedFair, by the proxy."""
    problem, engine = split.posed()
    for target in LIMITS:
        (model,) = reach(problem, engine, target).predictors
        yield target, split.says(model)


def thresholds(split: Split) -> Iterator[tuple[float, Predict]]:
    """FedAvg, then one threshold for each group, from sums; needs the group to predict."""
    problem, engine = split.posed()
    trained = fedavg(problem, engine)
    for target in LIMITS:
        (model,) = decide(replace(problem, target=target), engine, trained).predictors
        yield target, split.says(model)


def exponentiated_gradient(split: Split) -> Iterator[tuple[float, Predict]]:
    """A game of up to 50 rounds, each a weighted logistic regression; predictions are drawn.

    Its bound is on each group's distance to the rate of both together, which lies between the two
    rates by the groups' sizes in the class: the smaller group is away by the larger one's share of
    their difference.
    """
    _, y, s = split.parts["train"]
    share = np.bincount(s[y == split.protected]).max() / np.sum(y == split.protected)
    for limit in LIMITS:
        model = ExponentiatedGradient(
            split.logistic(),
            TruePositiveRateParity(difference_bound=share * limit),
            sample_weight_name="logisticregression__sample_weight",
        )
        model.fit(**split.fitting)
        yield limit, lambda part, m=model: m.predict(split.numbers(part), random_state=0)  # type: ignore[misc]


def threshold_optimizer(split: Split) -> Iterator[tuple[float, Predict]]:
    """Thresholds of a plain logistic regression, group by group; needs the group to predict."""
    base = split.logistic().fit(split.numbers("train"), split.fitting["y"])
    for limit in LIMITS:
        model = ThresholdOptimizer(
            estimator=base,
            constraints="true_positive_rate_parity",
            objective="accuracy_score",
            prefit=True,
            predict_method="predict_proba",
            tol=limit,
        )
        model.fit(**split.fitting)

        def predict(part: str, model: Any = model) -> Ints:
            known = {"sensitive_features": split.parts[part][2], "random_state": 0}
            labels: Ints = model.predict(split.numbers(part), **known)
            return labels

        yield limit, predict


OURS = ("fedfair", "thresholds")
METHODS = {
    "fedfair": fedfair,
    "thresholds": thresholds,
    "exponentiated gradient": exponentiated_gradient,
    "threshold optimizer": threshold_optimizer,
}


def splits(data: str, seeds: Sequence[int]) -> Iterator[Split]:
    """The rows of every seed, as `fairsilo compare` splits them."""
    if data != "acs":
        raw = Path(os.environ.get("FAIRSILO_DATA", "../shared/data")) / "raw"
        folder = raw if raw.is_dir() else None
        for seed in seeds:
            one = prepare(Options(data=data, seed=seed, data_dir=folder))
            yield Split(hold_out(one, seed), (one.test_x, one.test_y, one.test_s))
        return
    _, table = whole(data)
    rows = table.federation
    for seed in seeds:
        rng = np.random.default_rng(seed)
        drawn, others = np.split(rng.permutation(rows.rows), [ROWS])
        x, y, s = rows.x[drawn], rows.y[drawn], rows.s[drawn]
        own = Federation.of(
            x, y, s, rng.integers(0, CLIENTS, ROWS), groups=rows.groups, classes=rows.classes
        )
        held = replace(table, federation=own)
        yield Split(hold_out(held, seed), (rows.x[others], rows.y[others], rows.s[others]))


def measured(split: Split, predict: Predict, part: str) -> Tally:
    """Counts by group and class, class 1 the protected one."""
    _, y, s = split.parts[part]
    truth, labels = (y == split.protected).astype(np.int64), predict(part).astype(np.int64)
    groups = len(split.held.schema.groups)
    return Tally.of(truth, s, labels, np.zeros(len(y)), groups=groups, classes=2)


def gap(tally: Tally, pair: Constraint) -> float:
    """Signed difference of the true-positive rates; NaN if one is undefined."""
    found = rate_gap(tally, replace(pair, c=1))  # type: ignore[type-var]
    return float("nan") if found is None else found


def one_seed(split: Split, name: str) -> Line:
    """A method on the rows of one seed: the picked setting and its results on test rows."""
    (pair,) = split.held.constraints
    _ = split.matrix
    busy = time.process_time()
    models = list(METHODS[name](split))
    spent = {"cpu_seconds": time.process_time() - busy}
    found = []
    for setting, predict in models:
        tallies = {part: measured(split, predict, part) for part in split.parts}
        line: Line = {"method": name, "setting": setting}
        for part, tally in tallies.items():
            line[f"{part}_accuracy"] = accuracy(tally)
            line[f"{part}_gap"] = gap(tally, pair)
        line["seen_gap"] = gap(tallies["train"] + tallies["validation"], pair)
        found.append(line | spent)
    return pick(found)


def pick(found: list[Line]) -> Line:
    """The most accurate setting within the wanted DEO on validation rows, else the fairest."""
    fair = [line for line in found if abs(line["validation_gap"]) <= WANTED]
    if fair:
        return max(fair, key=lambda line: line["validation_accuracy"])
    return min(found, key=lambda line: abs(line["validation_gap"]))


def summarise(lines: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds, and what our two methods lead by: paired, with its error."""
    rows = []
    by_seed = lines.set_index("seed")
    for (data, name), own in by_seed.groupby(["data", "method"], sort=False):
        row = {
            "data": data,
            "method": name,
            "seeds": len(own),
            "accuracy": own.test_accuracy.mean(),
            "mean signed gap": own.test_gap.mean(),
            "mean DEO": own.test_gap.abs().mean(),
            "DEO trained and validated": own.seen_gap.abs().mean(),
        }
        for ours in OURS:
            mine = by_seed[(by_seed.data == data) & (by_seed.method == ours)]
            lead = (mine.test_accuracy - own.test_accuracy).dropna()
            row[f"lead of {ours}"] = lead.mean()
            row[f"error of {ours}"] = lead.std(ddof=1) / np.sqrt(len(lead))
        rows.append(row | {"CPU seconds": own.cpu_seconds.median()})
    return pd.DataFrame(rows)


def main() -> None:
    """Measure what is not yet known, and print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", nargs="+", default=list(SEEDS), choices=list(SEEDS))
    parser.add_argument("--seeds", type=int, help="20, of ACSIncome 5")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "seeds.csv"
    lines: list[Any] = pd.read_csv(file).to_dict("records") if file.exists() else []
    for data in given.data:
        known = {(one["seed"], one["method"]) for one in lines if one["data"] == data}
        asked = range(SEEDS[data] if given.seeds is None else given.seeds)
        seeds = [one for one in asked if any((one, name) not in known for name in given.methods)]
        for seed, split in zip(seeds, splits(data, seeds), strict=True):
            for name in given.methods:
                if (seed, name) not in known:
                    lines.append({"data": data, "seed": seed, **one_seed(split, name)})
                    pd.DataFrame(lines).round(6).to_csv(file, index=False)
    print(summarise(pd.DataFrame(lines)).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
