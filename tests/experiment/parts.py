"""Parts made by hand."""

from __future__ import annotations

import pandas as pd


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
