"""How steep honest questions are: the largest score over the declared ranges, of every question.

    python -m benchmarks.scores --out benchmarks/results/scores.json
    python -m benchmarks.scores --acs FOLDER     # with ACSIncome, one Parquet file per state

What a silo's `maximum_score` is compared with (`network/bounds.py`). Every theta that a server
sends counts, those of rounds on the way, too. COMPAS and DRUG need their files (FAIRSILO_DATA).
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from fairsilo.data.schema import Category, Number, Schema
from fairsilo.engine import Clientwise, silos_of
from fairsilo.network.bounds import largest_score
from fairsilo.predictor.thresholds import Thresholds
from fairsilo.question import Evaluate, Problem, Question
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan
from fairsilo.run.settle import settle
from fairsilo.run.train import train

WAYS: tuple[dict[str, Any], ...] = (
    {"solver": "newton"},
    {"solver": "newton", "epsilon": 0.0},
    {"solver": "lbfgs"},
    {"solver": "agp", "rounds": 1000},
    {"method": "fedavg"},
    {"method": "lco"},
    {"method": "af", "epsilon": 0.1},
    {"target_deo": 0.02},
    {"notion": "equalized-odds"},
    {"model": "mlp", "solver": "lbfgs"},
    {"model": "mlp", "solver": "agp", "rounds": 1000},
    {"model": "additive"},
    {"method": "thresholds"},
)
"""The ways of training; else everything is the default."""
ROWS = 6000
"""Rows of ACSIncome that are used: scores grow with few rows, not with many."""


class Steepest(Clientwise):
    """Notes the largest score of all questions."""

    score = 0.0
    encoder: Any = None

    def ask(self, problem: Problem, question: Question) -> Any:
        theta = getattr(question, "theta", None)
        if theta is not None and theta.size:
            self.score = max(self.score, largest_score(problem.model, theta, self.encoder))
        return super().ask(problem, question)


def measured(options: Options) -> tuple[float, int]:
    """The largest score of a training and its evaluation, and how many rounds it took."""
    prepared = prepare(options)
    engine = Steepest(silos_of(prepared.federation))
    engine.encoder = prepared.encoder
    settled = settle(options, prepared, plan(options, prepared), engine)
    found = train(options, settled, engine)
    for one in found.predictors:
        theta = one.base.theta if isinstance(one, Thresholds) else one.theta  # type: ignore
        engine.ask(settled.problem, Evaluate(theta))
    return engine.score, found.outcome.rounds


def acs(folder: Path, states: tuple[str, ...]) -> pd.DataFrame:
    """Some states of ACSIncome, each a silo."""
    parts = [pd.read_parquet(folder / f"{one}.parquet").assign(state=one) for one in states]
    return pd.concat([part.sample(min(len(part), ROWS // 4), random_state=0) for part in parts])


def tables(folder: Path | None, scratch: Path) -> Iterator[tuple[str, Options]]:
    """The data sets by name, with the options that name their rows."""
    for name in ("adult", "compas", "drug"):
        yield name, Options(data=name, clients=4, engine="clientwise")
    if folder is not None:
        frame = acs(folder, ("al", "ct", "ia", "id"))
        frame.to_csv(scratch / "acs.csv", index=False)
        category = ("COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P")
        features: list[Number | Category] = []
        for one in (c for c in frame.columns if c not in ("PINCP", "state")):
            values = tuple(sorted({str(v) for v in frame[one]}))
            features.append(
                Category(name=one, values=values) if one in category else Number(name=one)
            )
        schema = Schema(
            features=tuple(features), label="PINCP", classes=("False", "True"), group="SEX",
            groups=("1", "2"),
        )  # fmt: skip
        path = scratch / "acs.json"
        path.write_text(schema.model_dump_json())
        yield "acs-income", Options(
            data=str(scratch / "acs.csv"), client="state", schema=path, label="PINCP", group="SEX",
            protected_class="True", engine="clientwise",
        )  # fmt: skip


def main() -> None:
    """Measure, print, write."""
    import tempfile

    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--acs", type=Path)
    given = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        sets = tables(given.acs, Path(scratch))
        for (name, options), how in itertools.product(list(sets), WAYS):
            score, rounds = measured(replace(options, **how))
            lines.append(
                {"data": name, **how, "rounds_made": rounds, "score": float(f"{score:.4g}")}
            )
            print(json.dumps(lines[-1]), flush=True)
    if given.out:
        given.out.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
