"""Additive models against boosted trees: what they know, and what equal rates cost them.

    python -m benchmarks.additive                                     # everything: hours
    python -m benchmarks.additive --data adult --seeds 1 --models lightgbm ebm additive

Of every seed 60 % of the rows train, 20 % choose a setting (and stop the growth of trees), 20 %
test; all models have the same, one process each, on one core. Without a limit the setting with the
lowest validation loss counts. With one, the most accurate whose difference of true-positive rates
(DEO) on validation rows is at most 0.02, or if there is none the fairest. FAIRSILO_DATA has the
folders raw (COMPAS) and acs-income (38 states), which is drawn down to `--rows`. What was measured
is kept in benchmarks/results/additive.json, and is not measured again, but with `--again`. Several
processes may share the file.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.arena import ROOT, python_of
from benchmarks.scale import states
from fairsilo.arrays import Floats
from fairsilo.data import build_labels, write_atomic
from fairsilo.run.options import Options
from fairsilo.run.prepare import read

RESULTS = Path(__file__).parent / "results" / "additive.json"
FILE = Path(__file__).parent / "contestants" / "tables.py"
WANTED = 0.02
BOOSTED = ("lightgbm==4.*", "pandas<3", "pyarrow", "scikit-learn<1.8")
PACKAGES: dict[str, tuple[str, ...]] = {
    "lr": (),
    "mlp": (),
    "additive": (),
    "additive-pairs": (),
    "lightgbm": BOOSTED,
    "xgboost": ("xgboost==3.*", "pandas<3", "pyarrow", "scikit-learn<1.8"),
    "ebm": ("interpret-core==0.7.*", "pandas<3", "pyarrow", "scikit-learn<1.8"),
    "lightgbm-thresholds": (*BOOSTED, "fairlearn==0.13.*"),
    "lightgbm-reductions": (*BOOSTED, "fairlearn==0.13.*"),
    "fairgbm": (
        *("fairgbm==0.9.14", "numpy==1.26.*", "scipy<1.14", "pandas<2.3", "pyarrow<20"),
        "scikit-learn==1.5.*",
    ),
}
CLIENTS = 10
"""Among so many rows are dealt out, where no column says who holds them."""
Line = dict[str, Any]


def table_of(data: str, rows: int, seed: int) -> pd.DataFrame:
    """All rows of a data set: its features, and y, group, client."""
    rng = np.random.default_rng(seed)
    if data == "acs":
        paths = sorted(states().glob("*.parquet"))
        frame = pd.concat([pd.read_parquet(one).assign(client=one.stem) for one in paths])
        frame = frame.sample(min(rows, len(frame)) if rows else len(frame), random_state=seed)
        frame = frame.reset_index(drop=True)
        texts = ["COW", "MAR", "OCCP", "POBP", "RELP", "SEX", "RAC1P"]
        frame[texts] = frame[texts].astype(str)
        y = frame.pop("PINCP").to_numpy(np.int64)
        return frame.assign(y=y, group=frame["SEX"])
    raw = Path(os.environ.get("FAIRSILO_DATA", "../shared/data")) / "raw"
    frame, schema, options = read(Options(data=data, data_dir=raw if raw.is_dir() else None))
    y, s = build_labels(frame, schema)
    features = frame[[one.name for one in schema.features]]
    texts = [one.name for one in schema.features if one.kind == "category"]
    features = features.assign(**{name: features[name].astype(str) for name in texts})
    wanted = schema.classes.index(str(options.protected_class))
    group = np.array(schema.groups, object)[s]
    client = rng.integers(0, CLIENTS, len(features)).astype(str)
    return features.assign(y=(y == wanted).astype(np.int64), group=group, client=client)


def write_parts(frame: pd.DataFrame, seed: int, folder: Path) -> dict[str, pd.DataFrame]:
    """60, 20 and 20 % of the rows, by the seed."""
    order = np.random.default_rng(seed).permutation(len(frame))
    cuts = [round(0.6 * len(frame)), round(0.8 * len(frame))]
    parts = {}
    for name, own in zip(("train", "validation", "test"), np.split(order, cuts), strict=True):
        parts[name] = frame.iloc[np.sort(own)].reset_index(drop=True)
        parts[name].to_parquet(folder / f"{name}.parquet")
    return parts


def trained(name: str, folder: Path) -> tuple[dict[str, Floats], float]:
    """What a contestant says, by kind, setting and part, and its CPU seconds."""
    python = python_of(PACKAGES[name], name)
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    environment = {**os.environ, **one}
    environment.pop("PYTHONPATH", None)
    if not PACKAGES[name]:
        environment["PYTHONPATH"] = str(ROOT / "src")
    process = subprocess.Popen([python, str(FILE), name, str(folder)], env=environment)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{name} failed")
    with np.load(folder / f"{name}.npz") as found:
        return dict(found), used.ru_utime + used.ru_stime


def deo(frame: pd.DataFrame, labels: Floats) -> float:
    """The largest difference of the groups' true-positive rates."""
    true = frame["y"].to_numpy() == 1
    rates = pd.Series(labels[true]).groupby(frame["group"].to_numpy()[true]).mean()
    return float(rates.max() - rates.min())


def measured(parts: dict[str, pd.DataFrame], found: dict[str, Floats]) -> Line:
    """The chosen settings on the test rows."""
    aside, test = parts["validation"], parts["test"]
    line: Line = {}
    settings = {key.rpartition("/")[0] for key in found}
    free = sorted(one for one in settings if one.startswith("free/"))
    if free:
        best = min(free, key=lambda one: log_loss(aside["y"], found[f"{one}/validation"]))
        p = found[f"{best}/test"]
        line |= {
            "setting": best.partition("/")[2],
            "accuracy": float(np.mean((p > 0.5) == test["y"])),
            "auc": float(roc_auc_score(test["y"], p)),
            "log_loss": float(log_loss(test["y"], p)),
            "deo": deo(test, np.asarray(p > 0.5, np.float64)),
        }
    fair = sorted(one for one in settings if one.startswith("fair/"))
    if fair:
        gaps = {one: deo(aside, found[f"{one}/validation"]) for one in fair}
        right = {one: np.mean(found[f"{one}/validation"] == aside["y"]) for one in fair}
        within = [one for one in fair if gaps[one] <= WANTED]
        best = (
            max(within, key=lambda one: right[one]) if within else min(fair, key=lambda g: gaps[g])
        )
        labels = found[f"{best}/test"]
        line |= {
            "fair_setting": best.partition("/")[2],
            "fair_accuracy": float(np.mean(labels == test["y"])),
            "fair_deo": deo(test, labels),
        }
    return line


def summarise(lines: Sequence[Line]) -> str:
    """The table of docs/benchmarks.md: means over the seeds with their standard errors."""
    figures = ["accuracy", "auc", "log_loss", "fair_accuracy", "fair_deo"]
    frame = pd.DataFrame(lines).reindex(columns=["data", "model", "cpu_seconds", *figures])
    rows = [
        ["", "accuracy", "AUC", "log loss", "fair: accuracy", "fair: DEO", "CPU seconds", "seeds"],
        ["---"] * 8,
    ]
    for data in sorted(set(frame["data"])):
        own = frame[frame["data"] == data]
        for name in (one for one in PACKAGES if one in set(own["model"])):
            seen = own[own["model"] == name]
            told = [_told(seen[figure]) for figure in figures]
            seconds = f"{seen['cpu_seconds'].mean():.0f}"
            rows.append([f"{data}, {name}", *told, seconds, str(len(seen))])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _told(values: pd.Series[float]) -> str:
    if values.isna().all():
        return ""
    own = values.to_numpy(np.float64)
    error = f" ± {np.std(own, ddof=1) / len(own) ** 0.5:.4f}" if len(own) > 1 else ""
    return f"{np.mean(own):.4f}{error}"


def stored(path: Path) -> list[Line]:
    """What was measured so far."""
    return json.loads(path.read_text()) if path.exists() else []


def keep(path: Path, line: Line, key: Sequence[str]) -> None:
    """Add a line to what the file has by now; a line of the same key is replaced."""
    with _alone(path.parent):
        lines = stored(path)
        same = [at for at, one in enumerate(lines) if all(one[k] == line[k] for k in key)]
        if same:
            lines[same[0]] = line
        else:
            lines.append(line)
        write_atomic(path, (json.dumps(lines, indent=1) + "\n").encode())


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Other processes that ask for the folder wait."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is not yet known, and print all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", nargs="+", default=["adult", "compas", "acs"])
    parser.add_argument("--models", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000, help="of ACSIncome; 0: all")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="replace what is known of --models")
    given = parser.parse_args(arguments)
    for data in given.data:
        for seed in range(given.seeds):
            lines = [] if given.again else stored(given.out)
            known = {one["model"] for one in lines if (one["data"], one["seed"]) == (data, seed)}
            asked = [name for name in given.models if name not in known]
            if not asked:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                parts = write_parts(table_of(data, given.rows, seed), seed, Path(scratch))
                for name in asked:
                    found, seconds = trained(name, Path(scratch))
                    line = {"data": data, "seed": seed, "model": name, **measured(parts, found)}
                    line |= {"cpu_seconds": seconds}
                    keep(given.out, line, ("data", "seed", "model"))
    print(summarise(stored(given.out)))


if __name__ == "__main__":
    main()
