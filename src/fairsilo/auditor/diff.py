"""`fairsilo diff`: runs side by side. Settings that differ, figures, changes on the same rows."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from fairsilo.auditor.paired import Tested, changes, tested
from fairsilo.data import DATASETS
from fairsilo.errors import FairSiloError
from fairsilo.evaluate.intervals import Interval, wilson
from fairsilo.report.diff import compared_as
from fairsilo.report.sections.facts import Facts
from fairsilo.run import Options
from fairsilo.run.endings import ended_well
from fairsilo.run.store import read_json

MOST = 12
"""The most runs side by side."""


@dataclass(frozen=True)
class Kept:
    """A run folder as far as a comparison needs it; the model is read only for paired tests."""

    name: str
    folder: Path
    facts: Facts

    @property
    def options(self) -> dict[str, Any]:
        """The settings by name, those of an older version as they were without it."""
        about, metrics = self.facts.description, self.facts.metrics
        plain = {one.name: one.default for one in fields(Options)}
        for name in ("data_dir", "schema", "start_from"):
            plain.pop(name)
        told = {**plain, **about.get("options", {})}
        told["epsilon"] = metrics.get("tau", metrics.get("epsilon"))
        told["features used"] = [one["name"] for one in about["schema"]["features"]]
        told["data digest"] = about.get("made", {}).get("data_sha256")
        told["fairsilo"] = about.get("fairsilo")
        return dict(json.loads(json.dumps(told)))

    @property
    def compared(self) -> list[dict[str, Any]]:
        """Who is compared with whom; of an old run every two groups, as its notion was."""
        about = self.facts.description
        return about.get("compared") or [
            {"a": [a], "b": [b], "classes": [about["protected_class"]], "claim": None}
            for a, b in itertools.combinations(about["groups"], 2)
        ]


def diff(folders: Sequence[Path], data: str | None, data_dir: Path | None) -> dict[str, Any]:
    """All that is said of the runs, ready for JSON; the first is the one compared with."""
    if not 2 <= len(folders) <= MOST:
        raise FairSiloError(f"give two to {MOST} run folders to compare, not {len(folders)}")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise FairSiloError("a run folder is named twice: name every run once")
    runs = _read(folders)
    found, why = _paired(runs, data, data_dir)
    return {
        "runs": [_run(one) for one in runs],
        "settings": _settings(runs),
        "paired": found,
        "notes": [*_notes(runs), *why],
    }


def _read(folders: Sequence[Path]) -> list[Kept]:
    short = [folder.resolve().name for folder in folders]
    names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    runs = []
    for name, folder in zip(names, folders, strict=True):
        about, metrics = (read_json(folder / f"{part}.json") for part in ("model", "metrics"))
        if "test" not in metrics:
            raise FairSiloError(f"{folder} has a model and no figures: there is nothing to compare")
        path = folder / "history.parquet"
        history = pd.read_parquet(path) if path.exists() else pd.DataFrame()
        runs.append(Kept(name, folder, Facts(about, metrics, history)))
    return runs


def _settings(runs: Sequence[Kept]) -> dict[str, list[Any]]:
    """Those that differ, with the value of every run."""
    each = [one.options for one in runs]
    names = dict.fromkeys(name for one in each for name in one)
    values = {name: [one.get(name) for one in each] for name in names}
    found = {name: all_ for name, all_ in values.items() if any(v != all_[0] for v in all_)}
    used = [set(one["features used"]) for one in each]
    if "features used" in found:
        shared = set.intersection(*used)
        found["features used"] = [[f"{len(one)} columns", *sorted(one - shared)] for one in used]
    return found


def _run(run: Kept) -> dict[str, Any]:
    """One run: what it is, its figures with intervals, its gaps."""
    facts, metrics = run.facts, run.facts.metrics
    cells = facts.cells if facts.one_model else []
    right, rows = sum(cell.right for cell in cells), sum(cell.rows for cell in cells)
    auc = _ranked(facts)
    return {
        "name": run.name,
        "folder": str(run.folder),
        **{key: metrics.get(key) for key in ("method", "model", "notion", "epsilon", "target_deo")},
        "converged": metrics.get("converged"),
        "stopped_early": metrics.get("stopped_early", False),
        "rounds": metrics.get("rounds"),
        "test_rows": facts.test_rows,
        "useless": facts.useless,
        "figures": {
            "accuracy": {"value": facts.test("accuracy"), "interval": _span(wilson(right, rows))},
            "balanced_accuracy": {"value": facts.test("balanced_accuracy"), "interval": None},
            "auc": {"value": auc.get("auc"), "interval": auc.get("auc_interval")},
            "rate_gap": {"value": facts.test("rate_gap"), "interval": None},
            "loss_gap": {"value": facts.test("dgeo_pooled"), "interval": None},
        },
        "pairs": [
            {
                "name": compared_as(facts.spoken(one)),
                "rate": {"value": pair.rate_gap, "interval": _span(pair.rate_interval())},
                "loss": {"value": pair.loss_gap, "interval": _span(pair.normal())},
            }
            for one, pair in zip(run.compared, facts.pairs, strict=True)
        ]
        if facts.one_model
        else [],
        "curves": {key: auc.get(key) for key in ("roc", "calibration")} if auc else None,
        "loss_by_round": {
            "round": facts.column("round").tolist(),
            "loss": [v if math.isfinite(v) else None for v in facts.column("loss").tolist()],
        },
    }


def _ranked(facts: Facts) -> dict[str, Any]:
    """The curves of all rows in the protected class, or in the one that there is."""
    found = facts.metrics.get("curves") or []
    protected = facts.protected.split(", ")
    wanted = [one for one in found if facts.answer(one["class"]) in protected] or found
    return dict(wanted[0]["lines"][0]) if wanted else {}


def _paired(
    runs: Sequence[Kept], data: str | None, data_dir: Path | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """What every later run changes on the test rows of the first; and why something is not said."""
    first, *others = runs
    apart = {run.name: why for run in others if (why := _apart(first, run)) is not None}
    found = []
    notes = [
        f"there is no paired test of {one!r} with {first.name!r}: {apart[one]}" for one in apart
    ]
    if len(apart) == len(others):
        return [], notes
    try:
        old = tested(first.folder, data, data_dir)
    except FairSiloError as error:
        return [], [*notes, f"there is no paired test: {error}"]
    for run in others:
        if run.name in apart:
            continue
        try:
            new = tested(run.folder, data, data_dir)
            _same_rows(old, new)
        except FairSiloError as error:
            notes.append(f"there is no paired test of {run.name!r} with {first.name!r}: {error}")
            continue
        afar = [
            f"{r.name!r} is tested on {t.which}" for r, t in ((first, old), (run, new)) if t.which
        ]
        notes += [one for one in afar if one not in notes]
        made = changes(old, new, first.compared)
        for gap in made["gaps"]:
            gap["name"] = compared_as(first.facts.spoken(gap))
        found.append({"run": run.name, "against": first.name, "rows_sha256": old.digest, **made})
    return found, notes


def _apart(first: Kept, run: Kept) -> str | None:
    """Why two runs have no test rows in common, as far as their folders say; None: they may."""
    both = [one.options for one in (first, run)]
    data = [one["data"] if one.get("data") in DATASETS else one["data digest"] for one in both]
    if None not in data and data[0] != data[1]:
        return "they are of different data sets"
    schemas = [one.facts.description["schema"] for one in (first, run)]
    if any(schemas[0].get(key) != schemas[1].get(key) for key in ("label", "classes")):
        return "they predict different labels"
    return None


def _same_rows(old: Tested, new: Tested) -> None:
    if old.digest != new.digest:
        raise FairSiloError(
            f"their test rows differ ({len(old.y):,} and {len(new.y):,}): train both with one "
            "`split` column, or with the same `seed` and `test_fraction`"
        )


def _notes(runs: Sequence[Kept]) -> list[str]:
    """What a reader must know before comparing figures."""
    each = [one.options for one in runs]
    differ = {
        "the runs have different notions of fairness, so that their gaps are not of the same thing":
            [one["notion"] for one in each],
        "the runs have different labels": [one["label"] for one in each],
        "the runs have different protected classes": [one["protected_class"] for one in each],
        "the runs have different groups": [one["group"] for one in each],
        "the runs were limited differently": [_limit(one.facts) for one in runs],
        "the runs were tested on different numbers of rows":
            [f"{one.facts.test_rows:,}" for one in runs],
    }  # fmt: skip
    found = []
    for words, values in differ.items():
        if len(set(values)) > 1:
            told = (f"{run.name!r}: {value}" for run, value in zip(runs, values, strict=True))
            found.append(f"{words} ({', '.join(told)})")
    for run in runs:
        if run.facts.useless is not None:
            found.append(f"the run {run.name!r} is {run.facts.useless}")
        if not ended_well(run.facts.metrics):
            found.append(f"the run {run.name!r} did not converge")
    if len(runs) > 2:
        found.append(f"every run is compared with {runs[0].name!r}, the first")
    return found


def _limit(facts: Facts) -> str:
    if facts.target is not None:
        return f"rates {facts.target:g} apart"
    if facts.epsilon is not None:
        return f"losses {facts.epsilon:g}" + (" each" if facts.notion.alone else " apart")
    return "by nothing"


def _span(span: Interval | None) -> list[float] | None:
    return None if span is None else [span.low, span.high]
