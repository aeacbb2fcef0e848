"""Every pair of values of what a training can be told: all engines give the same sums and model.

A covering array: of all combinations that the options accept, the few that together have every
pair of values that any of them has.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.engine import Clientwise, Pooled
from fairsilo.errors import FairSiloError
from fairsilo.fairness import NOTIONS
from fairsilo.method import METHODS
from fairsilo.question import Local, Problem, Round
from fairsilo.question.model_sums import flatten
from fairsilo.run import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.run.problem import plan
from fairsilo.solver import Order, Query
from fairsilo.sums import Rows, placed, row_sums
from tests.network.silos import (
    Town,
    TownTransport,
    largest_gap,
    make_town,
    options_here,
    simulate,
    train_with,
)

FACTORS: dict[str, dict[str, dict[str, Any]]] = {
    "method": {name: {"method": name} for name in METHODS},
    "notion": {name: {"notion": name} for name in NOTIONS},
    "groups": {
        "two groups": {},
        "three groups": {"table": {"groups": 3}},
        "each against the rest": {"table": {"groups": 3}, "against": "rest"},
        "intersections, pooled": {"by": ("group", "region"), "pool": 40, "groups": None},
    },
    "limit": {
        "epsilon": {},
        "single pairs": {"epsilons": (("g0:g1", 0.01),)},
        "target by proxy": {"target_deo": 0.05},
        "target by search": {"target_deo": 0.05, "target_by": "search"},
    },
    "model": {
        "lr": {},
        "mlp": {"model": "mlp", "solver": "lbfgs", "rounds": 4},
        "mlp by agp": {"model": "mlp", "solver": "agp", "rounds": 4},
        "three classes": {"table": {"classes": 3}},
        "all classes protected": {"protected_class": "all"},
        "additive": {"model": "additive", "pairs": 0},
    },
    "masks": {"masks": {"secure_aggregation": True}, "clear": {"secure_aggregation": False}},
    "privacy": {"exact": {}, "private": {"dp": {"epsilon": 80.0}, "rounds": 12}},
}
ADDED = {"additive"}
Case = tuple[str, ...]


def settings_of(case: Case) -> dict[str, Any]:
    """The values of a case; what two of them say of the table is put together."""
    chosen = [FACTORS[factor][value] for factor, value in zip(FACTORS, case, strict=True)]
    settings: dict[str, Any] = {}
    for one in chosen:
        table = {**settings.get("table", {}), **one.get("table", {})}
        settings |= {**one, **({"table": table} if table else {})}
    if settings["notion"] == "bounded-loss":
        settings["epsilon"] = 0.68
    return settings


def accepted(case: Case) -> bool:
    """Whether the options take it; a limit of single pairs names groups that are compared."""
    settings = settings_of(case)
    given = {
        k: v for k, v in settings.items() if k in Options.__dataclass_fields__ and k != "split"
    }
    if "dp" in settings:
        given["dp_epsilon"] = settings["dp"]["epsilon"]
    method, groups = METHODS[settings["method"]], case[2]
    alone = NOTIONS[settings["notion"]].alone
    single = "epsilons" in settings and (groups not in ("two groups", "three groups") or alone)
    two = method.one_pair and (
        groups != "two groups"
        or "three classes" in case
        or "all classes protected" in case
        or settings["notion"] != "equal-opportunity"
    )
    lone = method.models and settings.get("model", "lr") not in method.models
    two = two or (method.decides and "three classes" in case)
    newton = method.name == "lco" and settings.get("solver", "newton") != "newton"
    if single or two or lone or newton or ("dp" in settings and "by" in settings):
        return False
    try:
        Options(data="", **{"group": "group", **given})
    except FairSiloError:
        return False
    return True


def covering() -> list[Case]:
    """Greedily, the case with the most pairs that no earlier one has; pairs are bits.

    Cases with a value of `ADDED` come last, so that a new value adds cases and changes none.
    """
    cases = [case for case in itertools.product(*FACTORS.values()) if accepted(case)]
    place: dict[Any, int] = {}
    bits = [
        sum(1 << place.setdefault(pair, len(place)) for pair in itertools.combinations(case, 2))
        for case in cases
    ]
    late = {k for k, case in enumerate(cases) if ADDED & set(case)}
    missing, chosen = (1 << len(place)) - 1, []
    while missing:
        new = [(bits[k] & missing).bit_count() for k in range(len(cases))]
        best = max(range(len(cases)), key=lambda k: (new[k] > 0, k not in late, new[k]))
        missing &= ~bits[best]
        chosen.append(cases[best])
    return chosen


CASES = covering()


def test_every_value_is_covered() -> None:
    seen = {value for case in CASES for value in case}
    assert seen == {value for values in FACTORS.values() for value in values}


@pytest.fixture(autouse=True)
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differential privacy with its noise taken out, so that sums can be compared."""
    monkeypatch.setattr("fairsilo.dp.noise.discrete_gaussian", lambda size, *_: np.zeros(size))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=", ".join)
def test_all_engines_agree(tmp_path: Path, case: Case) -> None:
    settings = settings_of(case)
    town = make_town(tmp_path / "town", 3, 480, **settings)
    post = TownTransport(town)
    run, _, engine = train_with(town, post, tmp_path / "journal")
    options = options_here(town, tmp_path)
    here = prepare(options) if town.agreed.dp is None else None
    if here is not None:
        problem = plan(options, here)
        for question in questions(town, problem, here):
            over = engine.ask(problem, question)
            apart = Clientwise(Pooled(here.federation, 5).silos).ask(problem, question)
            if isinstance(question, Local):
                same(over[0], apart[0])
            else:
                same(over, apart)
                if question.order == list(Order)[CASES.index(case) % len(Order)].value:
                    # One order in turn: the compiled program takes seconds for each.
                    same(over, pooled(problem, here, question))
    compare_models(town, tmp_path, run)


def questions(town: Town, problem: Problem, here: Prepared) -> list[Round | Local]:
    """What the method asks at some point theta: rounds of each order, or LCO's own question."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=problem.model.size) * 0.3
    totals = Pooled(here.federation, 5).count(problem).to_vector()
    mu = rng.normal(size=len(problem.constraints)) * 0.1
    if "local" in town.agreed.spec.asks:
        return [Local(theta, 10.0, 0, totals)]
    if "round" not in town.agreed.spec.asks:
        return []
    return [Round(theta, mu, order.value, totals) for order in Order]


def pooled(problem: Problem, here: Prepared, question: Round) -> Any:
    """The sums of the compiled program's rows."""
    rows = Pooled(here.federation, 5).rows(problem)
    query = Query(np.asarray(question.theta), np.asarray(question.mu))
    whole = Rows(placed(rows.x), *map(np.asarray, (rows.y, rows.w, rows.v)))  # type: ignore[arg-type]
    return row_sums(problem.model, Order(question.order), whole, query, problem.measure)


def same(one: Any, other: Any) -> None:
    np.testing.assert_allclose(flatten(one), flatten(other), rtol=1e-9, atol=1e-10)


def compare_models(town: Town, folder: Path, run: Any) -> None:
    other = simulate(town, folder)
    if not town.agreed.spec.own_models:
        assert largest_gap(town, run, other) < 1e-8
    for key in ("loss", "accuracy", "dgeo_pooled"):
        assert run.metrics["train"][key] == pytest.approx(other.metrics["train"][key], abs=1e-8)
