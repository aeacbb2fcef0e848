"""What `--target-deo` leaves on ADULT: rates on the rows seen, and on test rows over seeds.

    python -m benchmarks.targets --out experiments/central/targets.csv        # 20 seeds
    python -m benchmarks.targets --by search --seeds 3

For the proxy the rows seen are all training rows, for the search those trained on and those set
aside. The gap is signed, rate of Female minus rate of Male: a single test set has under 200 women
above 50K, so only the mean over the seeds is meaningful.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from fairsilo.engine import Pooled
from fairsilo.evaluate.metrics import accuracy, rate_gap
from fairsilo.method.target import reach, search
from fairsilo.run.options import Options
from fairsilo.run.prepare import prepare
from fairsilo.run.problem import plan
from fairsilo.run.tallies import tally_of

TARGETS = (0.01, 0.02, 0.05)


def one_seed(seed: int, by: str) -> list[dict[str, object]]:
    """All targets with the rows of one seed."""
    options = Options(data="adult", seed=seed)
    prepared = prepare(options)
    problem, rows, (pair,) = plan(options, prepared), prepared.federation, prepared.constraints
    engine = Pooled(rows)
    if by == "proxy":
        found = [reach(problem, engine, target) for target in TARGETS]
    else:
        found = [search(problem, engine, target) for target in TARGETS]
    lines: list[dict[str, object]] = []
    for target, trained in zip(TARGETS, found, strict=True):
        (model,) = trained.predictors
        seen = tally_of(model, rows.x, rows.y, rows.s, prepared, 0)
        test = tally_of(model, prepared.test_x, prepared.test_y, prepared.test_s, prepared, 0)
        lines.append(
            {
                "by": by,
                "target": target,
                "seed": seed,
                "rounds": trained.outcome.rounds + trained.rounds_before,
                "status": trained.outcome.status.name.lower(),
                "seen_gap": rate_gap(seen, pair),
                "test_gap": rate_gap(test, pair),
                "test_accuracy": accuracy(test),
            }
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--by", nargs="+", default=["proxy", "search"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines: list[dict[str, object]] = []
    for by in options.by:
        for seed in range(options.seeds):
            lines += one_seed(seed, by)
            if options.out:
                pd.DataFrame(lines).to_csv(options.out, index=False)
    frame = pd.DataFrame(lines)
    frame["seen_deo"] = frame.seen_gap.abs()
    table = frame.groupby(["by", "target"], sort=False).agg(
        seeds=("seed", "size"),
        largest_deo_seen=("seen_deo", "max"),
        mean_test_gap=("test_gap", "mean"),
        error=("test_gap", "sem"),
        accuracy=("test_accuracy", "mean"),
        rounds=("rounds", "median"),
    )
    print(table.round(4).to_string())


if __name__ == "__main__":
    main()
