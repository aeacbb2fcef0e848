"""The model card: the contents of a run folder for users of the model, without any data row.

The contents follow Mitchell et al., "Model Cards for Model Reporting" (2019): what it is, what it
is for, the data, fairness, metrics by group with intervals, and what it does not say.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fairsilo.evaluate.intervals import LEVEL, Interval
from fairsilo.report.sections.cards import figures, span_of
from fairsilo.report.sections.facts import Cell, Facts, Pair
from fairsilo.report.sections.group_seen import group_words
from fairsilo.report.sections.terms import changed_most
from fairsilo.report.sections.verdict import price
from fairsilo.report.sections.words import ESTIMATORS, MODELS, SOLVERS, name_of

Card = dict[str, Any]


def card(
    description: Mapping[str, Any], metrics: Mapping[str, Any], use: str | None = None
) -> Card:
    """The card as plain data, from model.json and metrics.json; `use` is the owner's own words."""
    facts = Facts(description, metrics, pd.DataFrame())
    schema, options = description["schema"], description.get("options", {})
    shown, compared = figures(facts), facts.compared_names
    names = compared
    if len(names) != len(facts.pairs):
        names = [pair.name for pair in facts.pairs]
    trained = {key: metrics.get(key) for key in ("clients", "rounds", "converged", "reason")}
    return {
        "model": {
            "kind": name_of(MODELS, metrics.get("model")),
            "method": facts.method.words,
            "fairsilo": description.get("fairsilo"),
            "answer": schema["label"],
            "classes": list(schema["classes"]),
        },
        "worth": metrics.get("worth"),
        "given_away": facts.too_good,
        "intended_use": use,
        "data": {
            "name": options.get("data"),
            "training_rows": metrics["train"].get("rows"),
            "test_rows": facts.test_rows,
            "features": [_feature(one) for one in schema["features"]],
            "group_column": schema["group"],
            "groups": list(schema["groups"]),
            "pooled": list(schema.get("pooled", [])),
        },
        "fairness": {
            "compared": compared,
            "notion": facts.notion.name,
            "means": facts.notion.words,
            "protected_class": facts.protected,
            "epsilon": facts.epsilon,
            "limits": [one["epsilon"] for one in description.get("compared", [])],
            "target_deo": facts.target,
            "training_rate_gap": facts.training_rate_gap,
            "measured": name_of(ESTIMATORS, metrics["estimator"])
            if metrics.get("estimator")
            else None,
            "training_gap": {
                key: metrics["train"].get(key) for key in ("dgeo_pooled", "dgeo_mean")
            },
        },
        "training": {**trained, "solver": name_of(SOLVERS, metrics.get("solver"))},
        "metrics": {
            "level": LEVEL,
            "titles": {key: title for key, title, *_ in shown},
            "test": {
                key: {"value": facts.test(key), "interval": _ends(span_of(facts, key))}
                for key, *_ in shown
            },
            "without_a_limit": {key: facts.unconstrained(key) for key, *_ in shown},
            "constant_answer": {key: facts.constant(key) for key, *_ in shown},
            "one_model": facts.one_model,
            "by_group": [_cell(one) for one in facts.cells],
            "pairs": [_pair(name, one) for name, one in zip(names, facts.pairs, strict=True)],
        },
        "terms": [_term(one) for one in description.get("terms", ())],
        "certificate": metrics.get("certificate"),
        "privacy": {"statement": price(metrics["dp"]), **metrics["dp"]}
        if "dp" in metrics
        else None,
        "made": description.get("made"),
        "notes": list(metrics.get("notes", [])),
        "limits": _limits(facts),
    }


def _limits(facts: Facts) -> list[str]:
    """The card's limitations: what the run's figures do not show."""
    said = [
        "Rates are limited on the training rows: those of other people follow as far as the "
        "smallest group has rows."
        if facts.rates_limited
        else "Losses are limited, not rates: a small gap of mean losses does not force equal rates."
        if facts.epsilon is not None or facts.target is not None
        else "Nothing was limited: the gaps are only measured."
    ]
    if facts.notion.caveat:
        said.append(facts.notion.caveat)
    elif facts.compares == "class" and facts.protected.count(", ") + 1 < facts.classes:
        said.append(f"The groups are compared within the class {facts.protected} alone.")
    seen = group_words(facts.metrics)
    return [
        *said,
        *([] if seen is None else [f"{seen[:1].upper()}{seen[1:]}."]),
        "Intervals hold for people like the test rows, and for one figure at a time.",
        "The label is taken as the truth: where past decisions were unfair, so is what they teach.",
    ]


def _feature(one: Mapping[str, Any]) -> Card:
    """A feature's name and kind; for a category only the number of its values."""
    if one["kind"] != "category":
        return {"name": one["name"], "kind": one["kind"]}
    return {"name": one["name"], "kind": "category", "values": len(one["values"])}


def _term(one: Mapping[str, Any]) -> Card:
    """A term of a score that is a sum; where it is known, what the limit changed in it."""
    where = changed_most(one)
    return {
        "name": one["name"],
        "class": one.get("class"),
        "importance": one["importance"],
        "cancels": one.get("cancels", {}),
        "weighted": one.get("weighted", "free" in one),
        "without_a_limit": one.get("free_importance"),
        "largest_change": None if where is None else where[1],
    }


def _cell(cell: Cell) -> Card:
    return {
        "group": cell.group,
        "class": cell.name,
        "rows": round(cell.rows),
        "recognised": cell.rate,
        "interval": _ends(cell.interval),
        "loss": cell.losses.mean if cell.losses else None,
    }


def _pair(name: str, pair: Pair) -> Card:
    return {
        "name": name,
        "a": pair.a.group,
        "b": pair.b.group,
        "class": pair.a.name,
        "rate_gap": pair.rate_gap,
        "rate_interval": _ends(pair.rate_interval()),
        "loss_gap": pair.loss_gap,
        "loss_interval": _ends(pair.normal()),
        "loss_bound": _ends(pair.chebyshev()),
    }


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
