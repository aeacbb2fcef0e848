"""What pages quote of `benchmarks`: tables and sentences from the stored runs."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks import additive

ROOT = Path(__file__).parents[2]
CENTRAL = ROOT / "experiments" / "central"
STORED = ROOT / "benchmarks" / "results"
DATA = {"adult": "ADULT", "compas": "COMPAS", "acs": "ACSIncome"}
OURS = {"fedfair": "FedFair, `--target-deo`", "thresholds": "`--method thresholds`"}
RIVALS = {
    "exponentiated gradient": "ExponentiatedGradient",
    "threshold optimizer": "ThresholdOptimizer",
}
PRIVATE = {"additive": "additive", "dp-ebm": "DP-EBM", "dp-ebm-tuned": "DP-EBM, tuned"}
FIGURES = {"accuracy": "accuracy", "auc": "AUC", "log_loss": "log loss"}
AIMS: tuple[tuple[str, str, str, float | None, tuple[str, ...]], ...] = (
    ("from `lr`", "accuracy", "lr", 0.012, ("adult",)),
    ("from EBM", "accuracy", "ebm", -0.003, tuple(DATA)),
    ("from LightGBM", "accuracy", "lightgbm", -0.005, tuple(DATA)),
    ("fair, from ThresholdOptimizer", "fair_accuracy", "lightgbm-thresholds", None, tuple(DATA)),
    ("fair, from ExponentiatedGradient", "fair_accuracy", "lightgbm-reductions", None, tuple(DATA)),
    ("fair, from FairGBM", "fair_accuracy", "fairgbm", None, tuple(DATA)),
)
"""What is compared, with whom, the least difference (none: minus one standard error), and where."""
NETWORK = STORED / "flower.json"
PHASES = ("start", "connect", "set-up", "rounds", "evaluation", "writing")
RUNS = (
    ("ADULT, 4 silos, masks", "fairsilo", "4"),
    ("ADULT, 4 silos, masks, a witness", "fairsilo", "4 and a witness, `--witness`"),
    ("ADULT, 20 silos, masks", "fairsilo", "20, `--silos 20`"),
    ("ADULT, 4 silos, masks", "Flower's own waits", "4, nodes with Flower's own waits"),
)
"""Workload and contestant of `benchmarks.flower`, and what they are called."""
SEEDS = 5
"""Of a whole comparison in `benchmarks.additive`."""
OVERLAP = 0.2 / 0.6
"""Its test rows by its training rows: what Nadeau and Bengio's correction adds to 1 / seeds."""


def _table(heads: str, rows: list[list[str]]) -> str:
    lines = [heads, "|---" * (heads.count("|") - 1) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _paired(mean: float, error: float) -> str:
    """Of one seed without an error."""
    return f"{mean:+.5f}" + (f" +- {error:.5f}" if not math.isnan(error) else "")


def _lead(lines: pd.DataFrame, data: str, ours: str, rival: str) -> tuple[float, float]:
    """Mean and standard error of the paired difference of test accuracy."""
    part = lines[lines["data"] == data].pivot(
        index="seed", columns="method", values="test_accuracy"
    )
    gap = (part[ours] - part[rival]).dropna()
    return float(gap.mean()), float(gap.sem())


def fairlearn() -> str:
    """Every method on every data set, and against whom ours are as accurate."""
    lines = pd.read_csv(CENTRAL / "seeds.csv")
    rows, found = [], list[str]()
    for data, title in DATA.items():
        for method, words in (OURS | RIVALS).items():
            own = lines[(lines["data"] == data) & (lines["method"] == method)]
            leads = ["", ""]
            if method in RIVALS:
                each = [_lead(lines, data, ours, method) for ours in OURS]
                leads = [_paired(*one) for one in each]
                found += [
                    f"{OURS[ours]} against {words} on {title} ({_paired(mean, error)})"
                    for ours, (mean, error) in zip(OURS, each, strict=True)
                    if mean < -error
                ]
            gaps = own[["test_gap", "seen_gap"]].abs().mean()
            accuracy, gap = own["test_accuracy"].mean(), own["test_gap"].mean()
            told = [f"{gap:+.3f}", *(f"{one:.3f}" for one in gaps)]
            seconds = f"{own['cpu_seconds'].median():.3g}"
            rows.append([title, words, str(len(own)), f"{accuracy:.4f}", *leads, *told, seconds])
    heads = (
        "| data | method | seeds | accuracy | FedFair's lead | thresholds' lead | "
        "mean signed gap | mean DEO | DEO, rows seen | CPU s |"
    )
    behind = f"More than one standard error behind: {'; '.join(found) or 'nobody'}."
    return f"{_table(heads, rows)}\n{behind}\n"


def targets() -> str:
    """What targets leave on ADULT."""
    lines = pd.read_csv(CENTRAL / "targets.csv")
    rows = []
    for (way, target), own in lines.groupby(["by", "target"], sort=False):
        gap, largest = own["test_gap"], own["seen_gap"].abs().max()
        told = [f"{gap.mean():+.4f} +- {gap.sem():.4f}", f"{own['test_accuracy'].mean():.4f}"]
        seen = [str(len(own)), f"{largest:.4f}"]
        rows.append([str(way), f"{target:g}", *seen, *told, f"{own['rounds'].median():g}"])
    return _table(
        "| way | target | seeds | largest DEO on the rows seen | mean signed gap on test rows | "
        "accuracy | rounds |",
        rows,
    )


def promises() -> str:
    """How often a target was promised for the population, and kept there."""
    lines = pd.DataFrame(json.loads((STORED / "promises.json").read_text()))
    rows = []
    by = ["data", "rows", "others", "target"]
    for (data, drawn, others, target), own in lines.groupby(by, sort=False):
        given = own[own["promised"]]
        kept = int(given["kept"].sum())
        counts = (len(own), len(own) - len(given), len(given))
        gaps = f"{given['gap'].median():.3f}, {given['gap'].max():.3f}"
        share = f"{kept} ({kept / len(given):.0%})"
        population = f"the other {others:,} rows" if others else "the table"
        draw = [DATA[data], f"{drawn:,}", population, f"{target:g}"]
        rows.append([*draw, *map(str, counts), share, gaps])
    return _table(
        "| data | rows drawn | population | target | draws | refused | promised | kept | "
        "gap there: median, largest |",
        rows,
    )


def agnostic(data: str) -> str:
    """AF over tau: test rows, mean and standard deviation over seeds."""
    lines = pd.read_csv(CENTRAL / f"af-{data}.csv")
    names = ("accuracy", "fairness", "harmonic_mean")
    rows = []
    for one in lines.to_dict("records"):
        figures = [f"{one[k]:.3f} +- {one[f'{k}_std']:.3f}" for k in names]
        rows.append([f"{one['epsilon']:g}", *figures, f"{one['rounds']:g}", str(one["ending"])])
    return _table("| tau | accuracy | fairness | harmonic mean | rounds | ending |", rows)


def private() -> str:
    """Additive models against DP-EBM, and which differences are above two standard errors."""
    lines = pd.DataFrame(json.loads((STORED / "private_additive.json").read_text()))
    grouped = lines.groupby(["model", "budget"])
    mean, error = grouped[[*FIGURES, "cpu_seconds"]].mean(), grouped[list(FIGURES)].sem()
    rows = []
    for budget, (model, words) in product(sorted(set(lines["budget"])), PRIVATE.items()):
        told = _bracketed(mean, error, (model, budget), FIGURES)
        seconds = f"{mean.loc[(model, budget), 'cpu_seconds']:.1f}"
        rows.append([f"{budget:g}", words, *told, seconds])
    found = []
    for rival in ("dp-ebm", "dp-ebm-tuned"):
        told = []
        for figure, words in FIGURES.items():
            lead = mean.loc["additive", figure] - mean.loc[rival, figure]
            lead *= -1 if figure == "log_loss" else 1
            wide = 2 * (error.loc["additive", figure] ** 2 + error.loc[rival, figure] ** 2) ** 0.5
            sides = {"better": lead > wide, "worse": lead < -wide, "neither": abs(lead) <= wide}
            at = [
                f"{side} at {', '.join(f'{one:g}' for one in lead.index[where])}"
                for side, where in sides.items()
                if where.any()
            ]
            told.append(f"{words} {', '.join(at)}")
        found.append(f"Ours against {PRIVATE[rival]}: {'; '.join(told)}.")
    heads = f"| DP epsilon | model | {' | '.join(FIGURES.values())} | CPU seconds |"
    clear = "Better or worse: by more than two standard errors of the difference."
    return f"{_table(heads, rows)}\n{clear} {' '.join(found)}\n"


def bets() -> str:
    """What bets on a row's presence prove of private trainings."""
    lines = json.loads((STORED / "dp_audit.json").read_text())
    noise = {1.0: "as promised", 0.5: "half of it"}
    rows = []
    models = {"lr": "logistic regression", "additive": "additive"}
    for one in lines:
        least = f"{one['epsilon']:.2f}"
        told = f"**{least}**" if one["epsilon"] > one["promised"] else least
        about = [models[one["model"]], noise[one["noise"]], f"{one['pairs']:,}"]
        rows.append([*about, told, f"{one['guess']:.2f}"])
    few, *_, many = (one for one in lines if one["noise"] == 1 and one["model"] == "lr")
    return (
        _table("| model | noise | pairs of trainings | epsilon is at least | best guess |", rows)
        + f"\nPromised: ({many['promised']:g}, {many['delta']:g}); bold: more than that. Supposing "
        f"nothing of the mechanism the bound of {many['pairs']:,} pairs with the noise as promised "
        f"is {many['any_epsilon']:.2f}. {few['pairs']:,} pairs took {few['cpu_seconds']:.0f} s of "
        "CPU time.\n"
    )


def limited() -> str:
    """What the limit costs under privacy."""
    lines = pd.DataFrame(json.loads((STORED / "private_additive.json").read_text()))
    grouped = lines.groupby(["model", "budget"])[["accuracy", "deo"]]
    mean, error = grouped.mean(), grouped.sem()
    rows = []
    for budget in sorted(set(lines["budget"])):
        parts = ((model, budget) for model in ("additive", "additive-limited"))
        told = [one for part in parts for one in _bracketed(mean, error, part, mean)]
        rows.append([f"{budget:g}", *told])
    return _table("| DP epsilon | no limit: accuracy | DEO | limit: accuracy | DEO |", rows)


def _bracketed(
    mean: pd.DataFrame, error: pd.DataFrame, part: tuple[str, float], names: Iterable[str]
) -> list[str]:
    return [f"{mean.loc[part, one]:.4f} ({error.loc[part, one]:.4f})" for one in names]


def network() -> str | None:
    """What a run over a network costs; None where none was measured yet."""
    if not NETWORK.exists():
        return None
    lines = pd.DataFrame(json.loads(NETWORK.read_text()))
    middle = lines.groupby(["workload", "contestant", "quantity"])["value"].median()
    own, start = middle[RUNS[0][:2]], middle["start of a process", "a silo's worker"]
    of = "seconds of the phase "
    phases = [name for name in PHASES if of + name in own]
    spent = [f"{own[of + name]:.1f}" for name in phases]
    asked = [own["exchanges before the first round"], own["exchanges"]]
    sent = [own[f"kB {way} by a silo"] for way in ("sent", "received")]
    apart = ("difference of probabilities from the simulation", "difference of the loss")
    rows = [
        ["training rows", f"{own['training rows']:,.0f}"],
        ["rounds to the optimum", f"{own['rounds']:.0f}"],
        ["exchanges before the rounds, in all", ", ".join(f"{one:.0f}" for one in asked)],
        ["seconds of the rounds", f"{own['seconds of the rounds']:.1f}"],
        [f"seconds by phase: {', '.join(phases)}", "; ".join(spent)],
        ["sent by a silo, received by a silo", ", ".join(f"{one:.0f} kB" for one in sent)],
        [
            "a silo's worker: CPU until it can answer, memory",
            f"{start['CPU seconds']:.1f} s, {start['MB']:.0f} MB",
        ],
        [
            "largest difference of a probability from the simulation, of the loss",
            ", ".join(f"{own[one]:.0e}" for one in apart),
        ],
    ]
    others = []
    for name, contestant, words in RUNS:
        part = lines[(lines["workload"] == name) & (lines["contestant"] == contestant)]
        if part.empty:
            continue
        each = part[part["quantity"] == "seconds a round"]["value"]
        told = middle[name, contestant]
        spread = f" ({each.min():.2f} to {each.max():.2f}, {len(each)} runs)"
        others.append(
            [
                words,
                f"{each.median():.2f}" + spread * (len(each) > 1),
                f"{told['CPU seconds a round, all processes']:.2f}",
                f"{told['seconds in all, from the first start to the last answer']:.0f}",
                f"{each.median() / own['seconds a round']:.2f}",
            ]
        )
    heads = "| silos | seconds a round | CPU seconds a round | seconds in all | times the first |"
    load = lines[lines["quantity"] == "load before"]["value"].max()
    where = f"Medians, on {own['cores']:.0f} cores; load before a run at most {load:.1f}."
    return f"{_table('| | |', rows)}\n{_table(heads, others)}\n{where}\n"


def aims() -> str:
    """By how much the additive model with pairs differs from others, and whether as was aimed."""
    lines = pd.DataFrame(json.loads((STORED / "additive.json").read_text()))
    rows = []
    for words, figure, rival, least, where in AIMS:
        aim = "within one error" if least is None else f"{least:+g}"
        told = []
        for data in DATA:
            part = lines[lines["data"] == data].pivot(index="seed", columns="model", values=figure)
            gap = part.reindex(columns=["additive-pairs", rival]).diff(-1, axis=1).iloc[:, 0]
            told.append(_aimed(gap.dropna(), least, data in where))
        rows.append([words, aim + " on ADULT" * (where == ("adult",)), *told])
    return _table(f"| accuracy | aim | {' | '.join(DATA.values())} |", rows)


def boosted() -> str:
    """Every model beside boosted trees, and which seeds are still to run."""
    lines = json.loads((STORED / "additive.json").read_text())
    seeds = Counter((one["data"], one["model"]) for one in lines)
    rows = {(data, model): seeds[data, model] for data in DATA for model in additive.PACKAGES}
    less = [
        f"{model} on {DATA[data]} ({count} of {SEEDS} seeds)"
        for (data, model), count in rows.items()
        if count < SEEDS
    ]
    words = f"\nNot yet measured in full: {', '.join(less)}.\n" if less else ""
    return f"{additive.summarise(lines)}\n{words}"


def exchanges() -> str:
    """What travels for an additive model with ten pairs."""
    lines = json.loads((STORED / "exchanges.json").read_text())
    rows = []
    for name, option in (("epsilon", "--epsilon 0.05"), ("target_deo", "--target-deo 0.02")):
        of = {one["data"]: one for one in lines if name in one}
        told = (f"{of[k]['exchanges']}, {of[k]['rounds']}, {of[k]['MB']:.3g}" for k in DATA)
        rows.append([f"`{option}`", *told])
    what = "exchanges in all, of these `rounds` in metrics.json, MB from each silo"
    return _table(f"| {what} | {' | '.join(DATA.values())} |", rows)


def _aimed(gap: pd.Series[float], least: float | None, asked: bool) -> str:
    """Whether the mean is at least what was aimed at; one seed has no error to be within."""
    if gap.empty:
        return ""
    error = ""
    if len(gap) > 1:
        error = f" ± {gap.sem():.4f} ({gap.std() * (1 / len(gap) + OVERLAP) ** 0.5:.4f})"
    told = f"{gap.mean():+.4f}{error}, {len(gap)} seed{'s' * (len(gap) > 1)}"
    if not asked or (least is None and not error):
        return told
    met = gap.mean() >= (-gap.sem() if least is None else least)
    return f"{told}: {'met' if met else 'not met'}{' so far' * (len(gap) < SEEDS)}"


def elsewhere() -> str:
    """How far the same study on a CPU is from the stored one, seed by seed."""
    keys = ["setting", "dataset", "model", "method", "solver", "seed", "opt"]
    both = [CENTRAL / "reproduce-two-cores.csv", ROOT / "experiments" / "results" / "seeds.csv"]
    there, here = (pd.read_csv(one, dtype={"opt": str}) for one in both)
    lines = there.merge(here, on=keys, suffixes=("", "_stored"), validate="one_to_one")
    lines["off"] = lines["harmonic_mean"] - lines["harmonic_mean_stored"]
    network, af = lines["model"] == "nn", lines["method"] == "AF"
    exact = lines[~network & ~af]
    same = (exact["off"].abs() < 1e-9).sum()
    ended = lines[af & (lines["status"] == "converged")]["off"].abs().max()
    went_on = lines[af & (lines["status"] != "converged")]["off"].abs().max()
    one = lines[network]["off"].abs().max()
    means = lines[network].groupby([key for key in keys if key != "seed"])["off"].mean().abs()
    return (
        f"Of {len(exact):,} logistic regressions (a method, setting and seed each; all but AF's) "
        f"{same:,} have the stored harmonic mean on the test rows to nine digits. AF's differ by "
        f"at most {ended:.4f} where they converged and by up to {went_on:.3f} where they did not. "
        f"Networks follow the rounding of the device: one by up to {one:.3f}, "
        f"the mean over five seeds by at most {means.max():.3f}.\n"
    )
