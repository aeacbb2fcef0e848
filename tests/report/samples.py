"""Contents of run folders without training: any number of groups, clients, rounds, constraints."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

HOSTILE = (
    "<script>window.hacked=1</script>",
    "</script><img src=x onerror=window.hacked=1>",
    "\"><svg onload='window.hacked=1'>&amp;\u2028",
)


@dataclass
class Sample:
    """The three files of a run folder."""

    description: dict[str, Any]
    metrics: dict[str, Any]
    history: pd.DataFrame

    def files(self) -> tuple[dict[str, Any], dict[str, Any], pd.DataFrame]:
        return self.description, self.metrics, self.history


def sample(
    *,
    groups: tuple[str, ...] = ("Female", "Male"),
    classes: tuple[str, ...] = ("low", "high"),
    clients: int = 5,
    rounds: int = 9,
    method: str = "fedfair",
    epsilon: float | None = 0.1,
    rows: int = 400,
    loss_gap: float = 0.05,
    seed: int = 0,
) -> Sample:
    """A run in which the losses of later groups are larger by `loss_gap` each."""
    rng = np.random.default_rng(seed)
    names = [f"{'abc'[k % 3]}{k}" for k in range(clients)]
    pairs = list(itertools.combinations(groups, 2))
    cells = [
        _cell(group, name, classes, rows, 0.4 + loss_gap * g)
        for g, group in enumerate(groups)
        for name in classes
    ]
    amount = {"fedavg": 0, "lco": len(pairs) * clients}.get(method, len(pairs))
    trained: dict[str, Any] = {
        "solver": "newton",
        "estimator": "local" if method == "lco" else "pooled",
        "clients": clients,
        "rounds": rounds,
        "converged": True,
        "reason": "converged: KKT residual 6.8e-08, violation 0.0e+00, tolerance 1e-06",
    }
    figures = {"accuracy": 0.8, "balanced_accuracy": 0.75, "harmonic_mean": 0.88}
    figures |= {"deo": 0.0, "fairness": 1.0}
    metrics = trained | {
        "method": method,
        "model": "lr",
        "epsilon": None if method == "fedavg" else epsilon,
        "train": {"rows": 4000, "loss": 0.4, "dgeo_mean": 0.09, "dgeo_pooled": 0.1},
        "test": {
            "rows": sum(cell["rows"] for cell in cells),
            **figures,
            "dgeo_pooled": loss_gap * (len(groups) - 1),
            "cells": cells,
        },
        "constant": figures | {"accuracy": 0.6},
        "unconstrained": {"test": figures | {"deo": 0.2, "dgeo_pooled": 0.4}},
        "bytes_up": 1000 * rounds,
        "bytes_down": 100 * rounds,
        "setup_exchanges": 2,
        "seconds": 1.5,
        "notes": [],
        "by_client": [
            {
                "client": name,
                "rows": 100,
                "accuracy": float(rng.uniform(0.7, 0.9)),
                "dgeo": float(rng.uniform(0, 0.3)),
            }
            for name in names
        ],
    }
    description = {
        "format": 1,
        "fairsilo": "0.1.0",
        "groups": list(groups),
        "protected_class": classes[-1],
        "trained": trained,
        "options": {"data": "sample", "method": method, "epsilon": epsilon, "solver": None},
        "client_names": names,
        "schema": {
            "label": "income",
            "group": "sex",
            "classes": list(classes),
            "groups": list(groups),
            "features": [{"kind": "number", "name": "age"}],
        },
    }
    return Sample(description, metrics, _history(rounds, amount, rng))


def with_terms(run: Sample, names: tuple[str, ...], limited: bool = True) -> Sample:
    """The run with a term of every kind; each name is a term's, and also that of a value."""
    terms: list[dict[str, Any]] = []
    for k, (name, kind) in enumerate(zip(names, ("curve", "values", "pair", "line"), strict=False)):
        labels = ["< 1.2345678", ">= 1.2345678", "(missing)"] if kind == "curve" else [*names[:3]]
        count = {"pair": 6, "line": 1}.get(kind, 3)
        heights = np.linspace(-1, 1 - 0.1 * k, count)
        one = {"name": name, "kind": kind, "importance": 1.0 / (1 + k), "labels": labels[:count]}
        if kind == "pair":
            one["labels"] = [["a", name], ["b", "c", name]]
        if kind == "curve":
            one |= {"edges": [1.2345678], "missing": True}
        free = 1.5 * heights if limited else heights
        one |= {"height": heights.tolist(), "free": free.tolist(), "free_importance": 0.5}
        one |= {"low": (free - 0.25).tolist(), "high": (free + 0.25).tolist()}
        if k < 2:
            one["cancels"] = {names[1 - k]: -0.9}
        terms.append(one)
    return Sample(run.description | {"terms": terms}, run.metrics, run.history)


def _cell(
    group: str, name: str, classes: tuple[str, ...], rows: int, loss: float
) -> dict[str, Any]:
    right = round(0.8 * rows)
    predicted = dict.fromkeys(classes, 0) | {name: right}
    predicted[next(other for other in classes if other != name)] += rows - right
    return {
        "group": group,
        "class": name,
        "rows": rows,
        "predicted": predicted,
        "loss": loss if rows else None,
        "loss_std": 0.3 if rows else None,
    }


def _history(rounds: int, amount: int, rng: np.random.Generator) -> pd.DataFrame:
    steps = np.arange(1, rounds + 1)
    columns: dict[str, Any] = {"round": steps, "loss": 0.3 + 0.4 / steps}
    for k in range(amount):
        columns[f"d_{k + 1}"] = 0.1 * rng.uniform(-1, 1) * (1 - 1 / steps)
    for k in range(amount):
        columns[f"mu_{k + 1}"] = 0.02 * rng.uniform(-1, 1) * (1 - 1 / steps)
    columns["residual"] = 10.0 ** -np.linspace(0, 8, rounds)
    columns["bytes_up"] = 1000
    columns["bytes_down"] = 100
    return pd.DataFrame(columns)
