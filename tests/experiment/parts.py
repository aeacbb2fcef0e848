"""Parts made by hand."""

from __future__ import annotations

import json

import pandas as pd

TRACE = json.dumps(
    {
        "round": [1, 2, 3],
        "loss": [0.69, 0.5, 0.4],
        "gap": [0.0, 0.2, 0.1],
        "multiplier": [0.0, None, 0.3],
    }
)


def part(values: dict[tuple[float, int, str], tuple[float, float]]) -> pd.DataFrame:
    """Rows from {(setting, seed, split): (accuracy, fairness)}."""
    return pd.DataFrame(
        [
            {
                "setting": setting,
                "seed": seed,
                "split": split,
                "member": 0,
                "accuracy": accuracy,
                "fairness": fairness,
                "harmonic_mean": 2 * accuracy * fairness / (accuracy + fairness),
                "balanced_accuracy": accuracy,
            }
            for (setting, seed, split), (accuracy, fairness) in values.items()
        ]
    )


def trained(settings: tuple[float, ...], members: int = 1, shift: float = 0.0) -> pd.DataFrame:
    """A part with every column that `run_method` leaves, details included."""
    keys = [
        (setting, seed, split)
        for setting in settings
        for seed in (0, 1)
        for split in ("test", "validation")
    ]
    figures = {
        key: (0.7 + shift + 0.02 * key[1], min(0.95 - key[0] / 5 + shift, 1.0)) for key in keys
    }
    many = pd.concat([part(figures).assign(member=member) for member in range(members)])
    ended: dict[str, str | float] = (
        {
            "dgeo_pooled": 0.05, "status": "converged", "rounds": 7, "loss": 0.5,
            "residual": 1e-8, "violation": 0.0, "rate: <b>women</b>": 0.7, "rate: men": 0.8,
            "client_accuracy_least": 0.6, "client_accuracy_most": 0.9, "client_dgeo_largest": 0.2,
            "bytes_up": 12_000, "bytes_down": 1_200, "accuracy_low": 0.65,
            "accuracy_high": 0.75, "fairness_low": 0.6, "fairness_high": 1.0, "trace": TRACE,
        }
    )  # fmt: skip
    return many.assign(**ended)
