"""docs/protocol.md names every message, field, limit and file that there is."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairsilo.method  # noqa: F401  # methods have questions of their own
from fairsilo.fairness import Dgeo
from fairsilo.model import logistic_regression
from fairsilo.network import chain, follows, signed, wire, witness
from fairsilo.network.account import account
from fairsilo.network.aggregate import Collected
from fairsilo.network.audit_columns import Answers
from fairsilo.network.client import reply_to
from fairsilo.network.federation_file import LATER
from fairsilo.network.ledger import TRAININGS
from fairsilo.network.masked import STEPS
from fairsilo.network.secure import AHEAD
from fairsilo.question import QUESTIONS, Counts, Evaluate, Local, Problem, Round
from fairsilo.secagg import Transcript, bundle, keys, ring, shamir
from fairsilo.solver import Newton
from tests.network.silos import TownTransport, make_town, restart_witnesses, train

PAGE = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
VECTORS = json.loads((Path(__file__).parents[1] / "secagg" / "vectors.json").read_text())


def line_of(kind: str) -> str:
    """The line of a kind of question in the page's table."""
    lines = [line for line in PAGE.splitlines() if " | static | " in line or " | moving | " in line]
    return next((line for line in lines if f"`{kind}`" in line.split(" | ")[0]), "")


def test_every_kind_of_question_is_there_with_its_fields() -> None:
    own = {kind: one for kind, one in QUESTIONS.items() if one.__module__.startswith("fairsilo.")}
    assert Answers.kind in own
    for kind, one in own.items():
        line = line_of(kind)
        assert line, f"no question {kind!r} on the page"
        assert [f.name for f in fields(one) if f"`{f.name}`" not in line] == [], kind
        assert ("moving" in line) == one.moving, kind


def test_every_field_of_a_question_and_of_an_account_is_there() -> None:
    frame = {f.name for f in fields(wire.Ask)} - {"question"}
    assert [name for name in frame if f"| `{name}` |" not in PAGE] == []
    words = np.zeros(3, np.uint64)
    made = Transcript((0, 1), 1, {}, {"NAME": words}, {}, {})
    ask = wire.Ask(Counts(), 1, "fingerprint", "fedfair")
    told = account(ask, "1", Collected(np.zeros(1), ("NAME",), {}), {}, made)
    assert [name for name in told if f"`{name}`" not in PAGE] == []


@pytest.mark.slow
def test_every_key_of_every_message_of_a_training_is_there(tmp_path: Path) -> None:
    """Of letters and replies, with masks under a witness and in the clear."""
    keys: set[str] = set()

    class Noting(TownTransport):
        def exchange(self, letters: Any, timeout: float) -> Any:
            found = super().exchange(letters, timeout)
            keys.update(
                *letters.values(), *(one for one in found.values() if isinstance(one, dict))
            )
            return found

    restart_witnesses()
    for folder, values in {"masks": {"watched": 1}, "clear": {"secure_aggregation": False}}.items():
        town = make_town(tmp_path / folder, silos=3, rows=450, rounds=1, **values)  # type: ignore[arg-type]
        train(town, Noting(town), tmp_path / f"{folder}-journal")
    settings = str(town.settings("silo0"))
    greeted = reply_to({"version": wire.VERSION, "step": "introduce"}, settings, {}, "1")
    keys |= {*greeted, *json.loads(greeted["content"])}
    named = {key.removeprefix("ask.").removeprefix("question.") for key in keys}
    named = {"account.vector NAME" if "vector silo" in key else key for key in named}
    assert {"answers", "vector", "declared", "account.about", "confirmed", "theta"} <= named
    assert [key for key in sorted(named) if f"`{key}" not in PAGE] == []


def test_every_step_and_label_is_there() -> None:
    for step in STEPS:
        assert f"### {step}\n" in PAGE
    assert f"step `{witness.STEP}`" in PAGE
    assert keys.LABEL.decode().rstrip("\0") in PAGE
    for kind in ("bundle", "survivors", signed.KIND, chain.SUCCEEDS, chain.FOLLOWS):
        assert f"`{kind}`" in PAGE


def test_the_numbers_are_the_codes() -> None:
    assert ring.DEFAULT_BOUND == 2.0**60
    assert shamir.PRIME == 2**256 + 297
    assert (shamir.SHARE_BYTES, ring.HIGH_BITS, ring.LOW_BITS) == (33, 62, 52)
    assert f"(the server: {AHEAD}; at most {bundle.MOST_ROUNDS:,})" in PAGE
    assert (follows.SCORES, follows.PARAMETERS, follows.NUMBERS) == (1e-8, 1e-6, 1e-9)
    assert f"the newest {TRAININGS} are counted" in PAGE
    assert f"wire version {wire.VERSION}," in PAGE
    assert [name for name in LATER if f"`{name}`" not in PAGE] == []


def test_lengths_are_the_codes() -> None:
    """The formulas of the page, for d = 3, K = 1, G = C = 2."""
    problem = Problem(
        logistic_regression(2), (Dgeo(0, 1, 1),), 0.1, "pooled", Newton(), rounds=1, seed=0
    )  # fmt: skip
    d, k, g, c = 3, 1, 2, 2
    zero, none = np.zeros(d), np.zeros(0)
    for order, length in (
        ("lagrangian", 1 + k + d),
        ("first", (1 + k) * (1 + d)),
        ("second", (1 + k) * (1 + d) + d * (d + 1) // 2),
    ):
        assert Round(zero, np.zeros(k), order, none).length(problem) == length
    assert Counts().length(problem) == 1 + g * c + k
    tally = g * c * c + 3 * g * c + 8 * k
    assert Evaluate(zero, part="rest").length(problem) == 2 * tally
    assert Evaluate(zero, test_only=True).length(problem) == tally + 672 * 2
    scored = Evaluate(zero, test_only=True, scores="test").length(problem)
    assert scored == tally + 672 * 2 + 512 * g
    assert Local(zero, 1.0, 0, none).length(problem) == 3 + d + d * (d + 1) // 2


def test_sizes_are_those_of_the_vectors() -> None:
    """A number is 16 bytes on the wire; set-ups are counted in rounds."""
    sent = VECTORS["round"]["masked"]["bank"]
    assert len(sent) // 2 == 16 * len(VECTORS["round"]["vectors"]["bank"]) + 8
    set_up = VECTORS["set_up"]
    rounds = set_up["last"] - set_up["first"] + 1
    letter = bytes.fromhex(set_up["silos"]["bank"]["letters"]["shop"])
    assert len(letter) == 66 * rounds + 16
    assert (105 + 1) * 2 + 105 * 106 // 2 == 5777, "the page's example"
