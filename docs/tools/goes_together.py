"""Which values of the options go together, and in one sentence why some do not.

Nothing is listed here by hand. Methods, notions and models come from their registries; whether
values go together is found by making `Options` of them, posing the problem and starting the
training, on an engine that stops it at the first question.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from fairsilo.data import Number, Schema, grouped_by, infer_schema, make_table
from fairsilo.engine import Pooled
from fairsilo.errors import FairSiloError
from fairsilo.fairness import NOTIONS, Totals
from fairsilo.fairness.words import sides_of
from fairsilo.method import METHODS
from fairsilo.model import MODELS
from fairsilo.question import Problem
from fairsilo.run.constraints import compare, protected_of
from fairsilo.run.options import Options
from fairsilo.run.problem import LARGEST_MATRIX, Posed, blank_encoder, plan, posed_from
from fairsilo.run.settle import settle
from fairsilo.run.train import train
from fairsilo.solver import SOLVERS

Values = dict[str, str]
"""A value for every factor that is not at its default."""
ENGINES = ("pooled", "clientwise")
"""Of what one engine alone refuses, the network is like clientwise: silos answer by themselves."""


def own(registry: Mapping[str, Any]) -> dict[str, Any]:
    """The things of this package, without those that others added."""
    made = {name: getattr(one, "constraints", None) or one for name, one in registry.items()}
    made = {name: getattr(one, "train", one) for name, one in made.items()}
    return {
        name: registry[name] for name, one in made.items() if one.__module__.startswith("fairsilo.")
    }


METHOD, NOTION, MODEL = own(METHODS), own(NOTIONS), own(MODELS)
REPAIRS = [name for name, one in METHOD.items() if one.repair is not None]
AFTER = {
    f"{repair} after {base}": {"method": repair, "after": base}
    for repair in REPAIRS
    for base, one in METHOD.items()
    if one.repair is None and one.limited and not (METHOD[repair].decides and one.own_models)
}
FACTORS: dict[str, dict[str, dict[str, Any]]] = {
    "method": {**{name: {"method": name} for name in METHOD}, **AFTER},
    "notion": {name: {"notion": name} for name in NOTION},
    "groups": {
        "two groups": {},
        "three groups, every pair": {"table": {"groups": 3}},
        "each group against the rest": {"table": {"groups": 3}, "against": "rest"},
        "small groups pooled": {"table": {"groups": 3}, "pool": 50},
        "intersections": {"group": "group,region"},
    },
    "classes": {
        "two classes": {},
        "three classes": {"table": {"classes": 3}},
        "all classes protected": {"protected_class": "all"},
    },
    "limit": {
        "one epsilon": {"epsilon": 0.05},
        "epsilons of single pairs": {"single": True},
        "target in rates, by proxy": {"target_deo": 0.05},
        "target in rates, by search": {"target_deo": 0.05, "target_by": "search"},
        "target in rates, promised": {"target_deo": 0.05, "target_confidence": 0.9},
    },
    "model": {
        **{f"model {name}": {"model": name} for name in MODEL},
        f"model mlp of over {LARGEST_MATRIX['mlp']} parameters": {
            "model": "mlp",
            "table": {"numbers": 50},
        },
        "model additive without pairs": {"model": "additive", "pairs": "0"},
        "model additive with named pairs": {"model": "additive", "pairs": "x0:x1"},
    },
    "penalty": {
        "default penalty": {},
        "penalty of a given strength": {"penalty": "1"},
        "penalty by AIC": {"penalty": "auto"},
        "penalty by validation": {"penalty": "validation"},
    },
    "solver": {
        "default solver": {},
        **{f"solver {name}": {"solver": name} for name in SOLVERS},
    },
    "estimator": {f"estimator {name}": {"estimator": name} for name in ("pooled", "mean")},
    "decision": {
        "decides at 0.5": {},
        "decides at a given probability": {"decide_at": "0.3"},
        "decides where F1 is best": {"decide_at": "f1"},
    },
    "privacy": {"exact sums": {}, "differential privacy": {"dp_epsilon": 4.0}},
}
"""Of every factor, its values as changes of the options; the first is the default."""
FIRST = {factor: next(iter(values)) for factor, values in FACTORS.items()}


class Reached(Exception):
    """Training began: nothing was refused."""


class Dry:
    """An engine that stops a training at its first question; it only knows counts."""

    min_cell: int | None = 0
    clients = 4

    def count(self, problem: Problem, unweighted: bool = False) -> Totals:
        """Rows enough for everything."""
        cells = np.full(problem.shape, 1000)
        return Totals(int(cells.sum()), cells, np.full(len(problem.constraints), self.clients))

    def noise(self, problem: Problem) -> float:
        """None."""
        return 0.0

    def ask(self, *_: object) -> Any:
        """Stop."""
        raise Reached

    solve = rows = own = ask

    @property
    def federation(self) -> Any:
        """Stop: who wants all silos' rows is about to train."""
        raise Reached


class DryPooled(Dry, Pooled):  # type: ignore[override]
    """The same, for methods that treat pooled rows apart."""

    clients = 4

    def __init__(self) -> None:
        pass


DRY: dict[str, Any] = {"pooled": DryPooled(), "clientwise": Dry()}


@cache
def schema_of(groups: int, classes: int, numbers: int, by: str) -> Schema:
    """The columns of a small table, with bounds, which differential privacy needs."""
    frame = make_table(200, groups=groups, classes=classes, numbers=numbers)
    frame["region"] = np.where(np.arange(len(frame)) % 3 == 0, "north", "south")
    schema = infer_schema(frame, label="label", group="group", exclude=["client"])
    if "," in by:
        schema = grouped_by(schema, frame, tuple(by.split(",")))
    bounded = tuple(
        one.model_copy(update={"bounds": (-5.0, 5.0)}) if isinstance(one, Number) else one
        for one in schema.features
    )
    return schema.model_copy(update={"features": bounded})


def settings_of(values: Values) -> tuple[Schema, dict[str, Any]]:
    """The columns, and the options by name; in the same words for a federation file."""
    found: dict[str, Any] = {"protected_class": "1", "group": "group"}
    table = {"groups": 2, "classes": 2, "numbers": 4}
    for factor, value in {**FIRST, **values}.items():
        given = dict(FACTORS[factor][value])
        table |= given.pop("table", {})
        found |= given
    schema = schema_of(**table, by=found["group"])
    if found.pop("single", False):
        found["epsilons"] = ((_first_pair(schema, found), 0.01),)
    return schema, found


def _first_pair(schema: Schema, settings: dict[str, Any]) -> str:
    """How options name the first comparison: A:B, or A where it is compared with many."""
    plain = {name: settings[name] for name in ("notion", "against") if name in settings}
    protected = protected_of(schema, settings["protected_class"])
    compared = compare(schema, Options(data="", **plain), schema.groups, protected)
    a, b, _ = sides_of(compared.constraints[0], schema.groups, schema.classes)
    return f"{a[0]}:{b[0]}" if len(b) == 1 else a[0]


def refusals(values: Values) -> dict[str, str]:
    """For every engine why these values do not go together; empty: they do."""
    schema, settings = settings_of(values)
    try:
        options = Options(data="", label="label", **settings)
    except FairSiloError as error:
        return dict.fromkeys(ENGINES, str(error))
    encoder = blank_encoder(options, schema)
    protected = protected_of(schema, settings["protected_class"])
    posed = posed_from(options, schema, encoder, protected=protected, groups=None, hidden=())
    problem = plan(options, posed)
    return {name: started(options, posed, problem, engine) for name, engine in DRY.items()}


def started(options: Options, posed: Posed, problem: Problem, engine: Any) -> str:
    """What the training says before its first question."""
    try:
        train(options, settle(options, posed, problem, engine), engine)
    except Reached:
        return ""
    except FairSiloError as error:
        return str(error)
    raise AssertionError("a training without a question")


def combinations(size: int) -> Iterator[Values]:
    """So many factors not at their default, in all ways; of three, without repairs of others."""
    others = {factor: list(values)[1:] for factor, values in FACTORS.items()}
    if size > 2:
        others["method"] = [name for name in others["method"] if name not in AFTER]
    for factors in itertools.combinations(FACTORS, size):
        for chosen in itertools.product(*(others[factor] for factor in factors)):
            yield dict(zip(factors, chosen, strict=True))


@cache
def refused() -> dict[frozenset[tuple[str, str]], dict[str, str]]:
    """The values, pairs and triples that do not go together though all parts of them do."""
    found: dict[frozenset[tuple[str, str]], dict[str, str]] = {}
    for size in (1, 2, 3):
        for values in combinations(size):
            key = frozenset(values.items())
            if any(known <= key for known, why in found.items() if all(why.values())):
                continue
            why = refusals(values)
            if any(why.values()) and not any(
                known <= key and found[known] == why for known in found
            ):
                found[key] = why
    return found


@cache
def unless(key: frozenset[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Factors and values that are not the defaults, with one of which a refused pair is taken."""
    pair = dict(key)
    if len(pair) != 2 or not all(refused()[key].values()):
        return ()
    others = ((one, v) for one in FACTORS if one not in pair for v in list(FACTORS[one])[1:])
    return tuple((one, v) for one, v in others if not any(refusals({**pair, one: v}).values()))


def why_not(values: Values, engine: str = "clientwise") -> str:
    """Why the page says that these values do not go together; empty: it says they do."""
    given = frozenset((k, v) for k, v in values.items() if v != FIRST[k])
    for key, why in refused().items():
        if key <= given and why[engine] and not given.intersection(unless(key)):
            return why[engine]
    return ""
