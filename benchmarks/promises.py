"""How often `--target-confidence` keeps its promise: many draws of rows, and the population.

    python -m benchmarks.promises                                 # 100 draws of each
    python -m benchmarks.promises --data compas --draws 3 --out /tmp/promises.json

A promise is kept where the rates of the promised model, over the whole population, are within the
target. Of ACSIncome 20,000 rows are drawn and the others are the population. ADULT and COMPAS have
no such rest: there the table is the population, and rows are drawn from it with replacement, so
that its gap is known and the rows are independent draws, as the promise assumes. All is read and
encoded once. What was measured is kept in benchmarks/results/promises.json.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.scale import CATEGORIES, states
from fairsilo.coded import joined
from fairsilo.engine import Pooled
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.metrics import accuracy, rate_gap
from fairsilo.method.promise import promise
from fairsilo.partition.federation import Federation
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import plan
from fairsilo.run.tallies import tally_of

RESULTS = Path(__file__).parent / "results" / "promises.json"
CONFIDENCE = 0.9
CLIENTS = 10
DRAWN = {"acs": 20_000, "adult": 40_000, "compas": 4_800}
"""Training rows of a draw."""
TARGETS = {"acs": 0.1, "adult": 0.1, "compas": 0.12}
"""About the smallest for which the rows suffice more often than not."""
Line = dict[str, Any]


def whole(data: str) -> tuple[Options, Prepared]:
    """All rows of a data set, encoded, as one client's."""
    if data == "acs":
        known: Line = {"label": "PINCP", "group": "SEX", "protected_class": "True"}
        options = Options(str(states()), **known, category=CATEGORIES)
    else:
        raw = Path(os.environ.get("FAIRSILO_DATA", "../shared/data")) / "raw"
        options = Options(data, clients=1, data_dir=raw if raw.is_dir() else None)
    # Preparing wants rows to test on; they are put back.
    prepared = prepare(replace(options, test_fraction=0.01))
    rows, shape = prepared.federation, (prepared.federation.groups, prepared.federation.classes)
    x = joined([rows.x, prepared.test_x])
    y, s = np.append(rows.y, prepared.test_y), np.append(rows.s, prepared.test_s)
    return options, replace(prepared, federation=Federation(x, y, s, np.array([0, len(y)]), *shape))


def one_draw(options: Options, table: Prepared, data: str, draw: int) -> Line:
    """With the rows of one draw: refused, or promised and kept or not."""
    rng, rows, (pair,) = np.random.default_rng(draw), table.federation, table.constraints
    apart = data == "acs"
    drawn = rng.choice(rows.rows, DRAWN[data], replace=not apart)
    others = np.ones(rows.rows, bool)
    others[drawn] = not apart
    shape: Line = {"groups": rows.groups, "classes": rows.classes}
    client = rng.integers(0, CLIENTS, len(drawn))
    engine = Pooled(Federation.of(rows.x[drawn], rows.y[drawn], rows.s[drawn], client, **shape))
    about: Line = {"rows": len(drawn), "others": int(others.sum()) if apart else 0}
    line: Line = {"data": data, **about, "target": TARGETS[data], "draw": draw, "promised": False}
    try:
        problem = plan(replace(options, seed=draw), table)
        trained = promise(problem, engine, TARGETS[data], CONFIDENCE)
    except FairSiloError:
        return line
    (model,) = trained.predictors
    found = tally_of(model, rows.x[others], rows.y[others], rows.s[others], table, seed=0)
    gap = abs(rate_gap(found, pair) or 0.0)
    told = {"gap": round(gap, 5), "accuracy": round(accuracy(found) or 0.0, 5)}
    return line | {"promised": True, "kept": gap <= TARGETS[data], **told}


def summarise(lines: Sequence[Line]) -> pd.DataFrame:
    """How often it was promised, and kept."""
    rows = []
    for (data, target), of_it in pd.DataFrame(lines).groupby(["data", "target"], sort=False):
        given = of_it[of_it["promised"]]
        kept = int(given["kept"].sum())
        rows.append(
            {
                "data": data,
                "target": target,
                "draws": len(of_it),
                "refused": len(of_it) - len(given),
                "promised": len(given),
                "kept": kept,
                "share kept": kept / max(len(given), 1),
                "broken, of all draws": (len(given) - kept) / len(of_it),
                "median gap": given["gap"].median(),
                "largest gap": given["gap"].max(),
                "accuracy": given["accuracy"].mean(),
            }
        )
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw what is not yet known, and print all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=list(DRAWN), choices=list(DRAWN))
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    lines: list[Line] = json.loads(given.out.read_text()) if given.out.exists() else []
    for data in given.data:
        known = {one["draw"] for one in lines if one["data"] == data}
        missing = [draw for draw in range(given.draws) if draw not in known]
        if not missing:
            continue
        options, table = whole(data)
        for draw in missing:
            lines.append(one_draw(options, table, data, draw))
            written = ",\n".join(json.dumps(one) for one in lines)
            given.out.write_text(f"[\n{written}\n]\n")
    print(summarise(lines).round(4).to_string(index=False))


if __name__ == "__main__":
    main()
