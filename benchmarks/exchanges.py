"""What an additive model with its ten pairs costs in exchanges, rounds and bytes.

    python -m benchmarks.exchanges [adult compas acs]

FAIRSILO_DATA has the folders raw (COMPAS) and acs-income (38 states, a silo each). The results are
kept in benchmarks/results/exchanges.json, from which docs/concepts/additive.md has its table.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.scale import CATEGORIES, exchanges, states
from fairsilo.run import Options, execute

RESULTS = Path(__file__).parent / "results" / "exchanges.json"
DATA = ("adult", "compas", "acs")
LIMITS: tuple[dict[str, float], ...] = ({"epsilon": 0.05}, {"target_deo": 0.02})
Line = dict[str, Any]


def options_of(data: str, limit: dict[str, float], raw: Path | None = None) -> Options:
    """The training whose cost is told; `raw` is the folder of COMPAS."""
    more: dict[str, Any] = {"model": "additive", **limit}
    if data == "acs":
        more |= {"label": "PINCP", "protected_class": "True", "group": "SEX"}
        return Options(str(states()), category=CATEGORIES, **more)
    raw = raw or Path(os.environ.get("FAIRSILO_DATA", "../shared/data")) / "raw"
    return Options(data, data_dir=raw if raw.is_dir() else None, **more)


def measured(data: str, limit: dict[str, float], raw: Path | None = None) -> Line:
    """All exchanges, those that metrics.json calls rounds, and what each silo sends."""
    metrics = execute(options_of(data, limit, raw), baseline=False).metrics
    return {
        "data": data,
        **limit,
        "exchanges": exchanges(metrics),
        "rounds": metrics["rounds"],
        "MB": round(metrics["bytes_up"] / metrics["clients"] / 1e6, 3),
    }


def main() -> None:
    """Measure the named data sets, or all; keep what is known of the others."""
    wanted = sys.argv[1:] or DATA
    lines: list[Line] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    for data in wanted:
        new = [measured(data, limit) for limit in LIMITS]
        lines = [one for one in lines if one["data"] != data] + new
    lines.sort(key=lambda one: DATA.index(one["data"]))
    RESULTS.write_text(json.dumps(lines, indent=1) + "\n")
    print(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
