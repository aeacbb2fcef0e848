"""The tables of `compare` and `sweep`: one line for each method or epsilon, over all seeds."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fairsilo.experiment.choice import best_setting, lost_settings
from fairsilo.experiment.endings import ending, is_detail
from fairsilo.experiment.grid import title_of
from fairsilo.experiment.tables import METRICS, collapsed, mean_std

Line = dict[str, Any]


def compare_summary(
    parts: Mapping[str, pd.DataFrame], optima: Mapping[str, pd.DataFrame | None] | None = None
) -> pd.DataFrame:
    """Every method at its best setting: chosen on test rows, and on validation rows.

    `optima` are the same parts solved exactly, or None if that is not known.
    """
    lines = []
    for method, part in parts.items():
        optimum = (optima or {}).get(method)
        choice = part["setting"].nunique() > 1
        for selection in ("test", "validation") if choice else ("test",):
            setting = best_setting(part, selection)
            lines.append(
                {
                    "method": title_of(method),
                    "chosen_on": selection if choice else "",
                    "setting": setting if choice else None,
                    **_line(part, method, setting, METRICS, optimum),
                    "settings_diverged": len(lost_settings(part)),
                }
            )
    for line in lines:
        line["collapsed"] = collapsed(line["balanced_accuracy"])
    return pd.DataFrame(lines)


def sweep_summary(part: pd.DataFrame, method: str) -> pd.DataFrame:
    """Every epsilon; `collapsed` is a balanced accuracy below 0.53."""
    lines = []
    for setting in sorted(part["setting"].unique()):
        line = {"epsilon": setting, **_line(part, method, setting, (*METRICS, "dgeo_pooled"))}
        line["collapsed"] = collapsed(line["balanced_accuracy"])
        lines.append(line)
    return pd.DataFrame(lines)


def words(ended: object, flat: bool, gap: float | None = None, lost: int = 0) -> str:
    """Whether the model collapsed, how training ended, its distance to the optimum, in words.

    `lost` is the number of settings with a lost training.
    """
    said = [*(["collapsed"] if flat else []), *([ended] if isinstance(ended, str) else [])]
    if ended == "not converged" and not pd.isna(gap):
        said.append(f"{gap:.1e} above the optimum")
    diverged = [f"{lost} setting{'s' * (lost > 1)} diverged"] if lost else []
    return "; ".join([*([", ".join(said)] if said else []), *diverged])


def remarks(summary: pd.DataFrame) -> list[str]:
    """Sentences that a reader of the printed table must know."""
    said = []
    named = [
        row["method"] + (f" (chosen on {row['chosen_on']} rows)" if row["chosen_on"] else "")
        for row in summary.to_dict("records")
    ]
    for wanted, means in (
        (summary["collapsed"], "collapsed, balanced accuracy below 0.53"),
        (summary["ending"] == "not converged", "not converged in every seed"),
        (summary["ending"] == "diverged", "diverged, no model"),
    ):
        found = [name for name, is_so in zip(named, wanted, strict=True) if is_so]
        if found:
            said.append(f"{means}: {', '.join(found)}")
    lost = summary.drop_duplicates("method").set_index("method")["settings_diverged"]
    if lost.any():
        said.append(
            "settings left out because training diverged: "
            + ", ".join(f"{name} {count}" for name, count in lost[lost > 0].items())
        )
    return said


def _line(
    part: pd.DataFrame,
    method: str,
    setting: float,
    metrics: tuple[str, ...],
    optimum: pd.DataFrame | None = None,
) -> Line:
    """The figures of a setting, its ending and rounds; the constant has no ending."""
    chosen = part[(part["split"] == "test") & (part["setting"] == setting)]
    line: Line = {**mean_std(chosen, metrics)}
    more = [name for name in part if is_detail(str(name)) or str(name).startswith("bytes_")]
    for name in ("balanced_accuracy", *map(str, more)):
        line[name] = float(chosen[name].mean(skipna=False))
    traces = [one for one in chosen.get("trace", ()) if isinstance(one, str)]
    claims = method != "constant"
    return {
        **line,
        "trace": traces[0] if traces else None,
        "ending": ending(chosen, optimum)["ending"] if claims else None,
        "rounds": None if method == "constant" else float(chosen["rounds"].max()),
    }
