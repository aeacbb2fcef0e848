"""A silo answers the questions of the federation's method, and of no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.method.repair import Repair
from fairsilo.method.st import Separate
from fairsilo.network.audit_columns import Answers
from fairsilo.network.client import reply_to
from fairsilo.network.federation_file import Privacy
from fairsilo.network.wire import Ask
from fairsilo.question import (
    Cells,
    Columns,
    Counts,
    Evaluate,
    Local,
    NoisyColumns,
    NoisyCounts,
    Outcomes,
    Question,
    Round,
)
from fairsilo.question.agnostic import POINTS, Attack, Spread
from tests.network.silos import make_town

SIZE, SEEN = 10, 7
"""Parameters of the model, and columns that do not name the group."""
ZERO, NONE, TOTALS = np.zeros(SIZE), np.zeros(0), np.full(6, 1e4)
QUESTIONS: dict[str, Question] = {
    "columns": Columns(),
    "counts": Counts(),
    "counts of the rest": Counts(rest=True),
    "limited round": Round(ZERO, np.zeros(1), "second", TOTALS),
    "limited round of the rest": Round(ZERO, np.zeros(1), "second", TOTALS, rest=True),
    "round": Round(ZERO, NONE, "second", TOTALS[:5], limited=False),
    "round of the rest": Round(ZERO, NONE, "second", TOTALS[:5], rest=True, limited=False),
    "local": Local(ZERO, 1.0, 0, TOTALS),
    "spread": Spread(),
    "attack": Attack(ZERO, np.zeros(POINTS * SEEN)),
    "separate": Separate(),
    "eo": Repair("eo", ZERO),
    "ceo": Repair("ceo", ZERO),
    "eo-conditional": Repair("eo-conditional", ZERO),
    "answers": Answers("classes"),
    "evaluate": Evaluate(ZERO),
    "evaluate test rows": Evaluate(ZERO, test_only=True),
    "evaluate rows set aside": Evaluate(ZERO, part="aside"),
    "evaluate the rest": Evaluate(ZERO, part="rest"),
    "noisy columns": NoisyColumns(),
    "noisy counts": NoisyCounts(),
    "limited cells": Cells(ZERO, curvature=False),
    "cells": Cells(ZERO, curvature=False, limited=False),
    "outcomes": Outcomes(ZERO),
}
ALWAYS = {"columns", "counts", "round", "evaluate", "evaluate test rows"}
AF = {"spread", "attack"}
PRIVATE = {"noisy columns", "noisy counts", "cells", "outcomes", "evaluate test rows"}
REST = {
    "counts of the rest", "limited round of the rest", "round of the rest",
    "evaluate rows set aside", "evaluate the rest",
}  # fmt: skip
DP = {"dp": Privacy(epsilon=50.0)}
SEARCH = {"target_deo": 0.1, "target_by": "search"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "answered"),
    [
        ({"method": "fedfair"}, ALWAYS | {"limited round"}),
        ({"method": "fedfair", "target_deo": 0.1}, ALWAYS | {"limited round"}),
        ({"method": "fedfair", **SEARCH}, ALWAYS | {"limited round"} | REST),
        ({"target_deo": 0.1, "target_confidence": 0.9}, ALWAYS | {"limited round"} | REST),
        ({"method": "fedavg"}, ALWAYS),
        ({"method": "lco"}, ALWAYS | {"local"}),
        ({"method": "af"}, ALWAYS | AF),
        ({"method": "st"}, ALWAYS | {"separate"}),
        ({"method": "eo"}, ALWAYS | {"eo"}),
        ({"method": "ceo"}, ALWAYS | {"ceo"}),
        ({"method": "eo", "after": "fedfair"}, ALWAYS | {"eo", "limited round"}),
        ({"method": "eo", "after": "lco"}, ALWAYS | {"eo", "local"}),
        ({"method": "eo", "after": "af"}, ALWAYS | {"eo"} | AF),
        ({"method": "ceo", "after": "st"}, ALWAYS | {"ceo", "separate"}),
        ({"method": "fedfair", **DP}, PRIVATE | {"limited cells"}),
        ({"method": "fedavg", **DP}, PRIVATE),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_what_a_silo_answers(tmp_path: Path, settings: dict[str, Any], answered: set[str]) -> None:
    town = make_town(tmp_path, rows=400, secure_aggregation=False, **settings)
    agreed, found = town.agreed, set()
    scalings = np.tile([0.0, 1.0, 0.0], len(agreed.table.numbers))
    assert agreed.problem(scalings).model.size == SIZE
    for name, question in QUESTIONS.items():
        encoded = name not in ("columns", "noisy columns")
        given = scalings if encoded else NONE
        ask = Ask(
            question, 1, agreed.fingerprint, agreed.method, encoded, given, training="ab"
        ).to_record()
        reply = reply_to(ask, str(town.settings("silo0")), {}, "1")
        assert bool(reply["vector"]) is not bool(reply["refused"])
        if reply["vector"]:
            found.add(name)
            continue
        told = f"method {agreed.method!r} has no question {question.kind!r}"
        alone = "the problem sets no rows aside"
        assert told in reply["refused"] or (name in REST and alone in reply["refused"]), name
    assert found == answered


def test_an_audit_asks_for_tallies_alone(tmp_path: Path) -> None:
    town = make_town(tmp_path, rows=400, secure_aggregation=False)
    path, found = town.settings("silo0"), set()
    scalings = np.tile([0.0, 1.0, 0.0], len(town.agreed.table.numbers))
    audits = {"audited": Evaluate(ZERO, audit=True), "classes": Answers("classes")}
    path.write_text(path.read_text() + 'audit_predictions = "label"\n')
    about = (1, town.agreed.fingerprint, "fedfair", True, scalings)
    ended = Ask(Evaluate(ZERO), *about, training="ab").to_record()
    assert reply_to(ended, str(path), {}, "1")["vector"]
    for name, question in (QUESTIONS | audits).items():
        ask = Ask(question, 1, town.agreed.fingerprint, "audit", True, scalings).to_record()
        if reply_to(ask, str(path), {}, "1")["vector"]:
            found.add(name)
    assert found == {"answers", *audits}
