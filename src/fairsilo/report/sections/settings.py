"""The sections with the settings and with the limitations."""

from collections.abc import Mapping
from typing import Any

from fairsilo.data import DATASETS
from fairsilo.report.blocks import bullets, details, section, table
from fairsilo.report.html import Child, Html, el
from fairsilo.report.sections.facts import Facts
from fairsilo.report.sections.group_seen import group_words
from fairsilo.report.sections.words import (
    ESTIMATORS,
    MODELS,
    OPTIONS,
    SOLVERS,
    method_of,
    notion_of,
)
from fairsilo.report.text import missing, number

_EXPLAINED = {"model": MODELS, "solver": SOLVERS, "estimator": ESTIMATORS}


def settings(facts: Facts) -> Html:
    """Every option with its value and its meaning."""
    description = facts.description
    options = description.get("options", {})
    rows: list[list[Child]] = [
        [el("code", str(key)), _used(facts, str(key), value), OPTIONS.get(str(key), "")]
        for key, value in options.items()
    ]
    schema = description.get("schema", {})
    features = [str(one.get("name")) for one in schema.get("features", [])]
    extra: list[list[Child]] = [
        ["Method in words", facts.method.words],
        ["FairSilo version", str(description.get("fairsilo", ""))],
        ["Classes", ", ".join(map(str, schema.get("classes", [])))],
        ["Groups in the data", ", ".join(map(str, schema.get("groups", [])))],
        [f"Features ({len(features)})", ", ".join(features)],
    ]
    return section(
        "Settings",
        table(["Option", "Value", "What it is"], rows, sortable=False),
        details("What the model is made of", table(["", ""], extra, sortable=False)),
        lead="Everything needed to train the same model again from the same data.",
        name="settings",
    )


def limits(facts: Facts) -> Html:
    """Conclusions that a reader should not draw from the page."""
    constant = facts.constant("harmonic_mean")
    items: list[Child] = [
        _limited(facts),
        *_unprotected(facts),
        *_sees_group(facts),
        "Test rows are finite. The intervals say how far chance alone could move the figures, if "
        "the people the model will meet are like the test rows. They cannot say whether they are.",
        "Chebyshev\u2019s bound uses a variance that is itself estimated from the test rows, and "
        "every interval holds with 95% confidence for one pair: among twenty pairs, one is "
        "expected to miss.",
        "The harmonic mean rewards trivial models: giving everyone the same answer is perfectly "
        "\u201cfair\u201d"
        + (f" and scores {number(constant)} here." if constant is not None else ".")
        + " Read it beside balanced accuracy.",
        "The label is taken as the truth. Where past decisions were unfair, a model that "
        "reproduces them equally well for all groups is still unfair.",
        "Figures by client are on training rows"
        + (
            ", and a gap within the limit over all clients says little about any one of them."
            if facts.method.limits == "loss" and not facts.method.by_silo
            else "."
        ),
    ]
    return section("What this does not say", bullets(items), name="limits")


def _limited(facts: Facts) -> str:
    """What the limit applies to, and what does not follow from it."""
    if facts.rates_limited:
        return (
            "Training rows are not people. The limit was set on the rates of the training rows; "
            "the rates of others follow them as far as the smallest group has rows."
        )
    if facts.epsilon is None and facts.target is None:
        return "Nothing was limited. The gaps are measured, and could be anything."
    return (
        "Losses are not rates. The limit is set on average losses, because these can be trained; "
        "who is answered right or wrong follows the rates above, and a small gap in one does not "
        "force a small gap in the other."
    )


def _unprotected(facts: Facts) -> list[Child]:
    """What the notion of fairness leaves out, if anything."""
    if facts.notion.caveat:
        return [facts.notion.caveat]
    if facts.compares != "class" or facts.protected.count(", ") + 1 >= facts.classes:
        return []
    return [
        f"Not every class is protected. The groups are compared among those who truly are "
        f"\u201c{facts.protected}\u201d; the other classes are shown under \u201cWho pays for "
        "it?\u201d, but nothing limits their gaps."
    ]


def _sees_group(facts: Facts) -> list[Child]:
    """That the model sees the group, if it does."""
    said = group_words(facts.metrics)
    if said is None:
        return []
    return [
        f"{said[:1].upper()}{said[1:]}. A model that is blind to the group need not have a smaller "
        "gap; whether it may see the group is for the law and for you to say."
    ]


def _used(facts: Facts, key: str, value: object) -> Child:
    """The value that was used, which for some methods is not the option's."""
    if key == "solver" and facts.metrics.get("solver") == "own":
        return SOLVERS["own"]
    if key == "engine" and "network" in facts.metrics:
        return _network(facts.metrics["network"])
    options = facts.description.get("options", {})
    dealt = options.get("clients") is not None or options.get("data") in DATASETS
    if key in ("partition", "alpha", "clients") and not dealt:
        return "not used: the table says who holds a row"
    if key == "estimator" and "estimator" in facts.metrics:
        value = facts.metrics["estimator"]
        if value is None:
            return "not used by this method"
    return _value(facts, key, value)


def _network(network: Mapping[str, Any]) -> str:
    """Which silos answered, and what the server could see."""
    seen = (
        "behind masks: the server saw sums over silos only"
        if network["secure_aggregation"]
        else "in the clear: the server saw every silo's own sums"
    )
    return (
        f"over a network: {', '.join(network['silos'])}, {seen}{watched_by(network)}; federation "
        f"file {network['fingerprint'][:16]}"
    )


def watched_by(network: Mapping[str, Any]) -> str:
    """Who signed the questions; runs of before witnesses do not say."""
    names = network.get("witnesses")
    if not names:
        return ""
    who = f"{network['signatures']} of {len(names)} witnesses ({', '.join(names)})"
    return f"; every question of the training signed by {who}"


def _value(facts: Facts, key: str, value: object) -> Child:
    """The option's value, or the value that its default stands for."""
    if value is None:
        chosen = {
            "solver": facts.metrics.get("solver"),
            "clients": facts.metrics.get("clients"),
            "label": facts.description.get("schema", {}).get("label"),
            "group": facts.description.get("schema", {}).get("group"),
            "protected_class": facts.protected,
            "groups": ", ".join(facts.groups),
        }.get(key)
        if chosen is None or (key == "clients" and facts.description["options"].get("client")):
            return missing("not given: the default of the program or the data set")
        return f"{chosen} (by default)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    meaning = _meaning(key, str(value))
    return meaning if meaning == str(value) else f"{value}: {meaning.split(': ', 1)[-1]}"


def _meaning(key: str, value: str) -> str:
    """An option's value in words, or the value itself."""
    if key == "method":
        return method_of(value).words
    if key == "notion":
        return notion_of(value).words
    return _EXPLAINED.get(key, {}).get(value, value)
