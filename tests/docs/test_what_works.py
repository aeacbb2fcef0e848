"""docs/what-works.md is what its program writes, and federation files agree with it."""

from __future__ import annotations

import importlib
import itertools
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from fairsilo.network.encoding import scalings_of
from fairsilo.network.federation_file import FederationFile, Privacy
from fairsilo.run.problem import blank_encoder
from tests.network.members import members

DOCS = Path(__file__).parents[2] / "docs"
MEMBERS = members("silo0", "silo1", "silo2")

pytestmark = pytest.mark.slow


def loaded(name: str) -> ModuleType:
    """A program of docs/tools."""
    sys.path.insert(0, str(DOCS / "tools"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return loaded("goes_together")


def over_a_network(tool: ModuleType, values: dict[str, str], masks: bool) -> str:
    """What a federation file with these values says, or the training by it; empty: nothing."""
    schema, settings = tool.settings_of(values)
    settings.pop("group")
    private = settings.pop("dp_epsilon", None)
    try:
        agreed = FederationFile(
            table=schema,
            split="part",
            silos=MEMBERS,
            secure_aggregation=masks,
            dp=None if private is None else Privacy(epsilon=private),
            rounds=6,
            **settings,
        )
    except ValidationError as error:
        return str(error.errors()[0]["msg"])
    options = agreed.options()
    encoder = blank_encoder(options, schema)
    problem = agreed.problem(scalings_of(encoder))
    return str(tool.started(options, agreed.posed(encoder), problem, tool.DRY["clientwise"]))


def test_the_page_is_what_the_program_writes() -> None:
    written = (DOCS / "what-works.md").read_text()
    assert loaded("what_works").page() == written, "run python docs/tools/what_works.py"


@pytest.mark.parametrize("masks", [True, False], ids=["masks", "clear"])
def test_federation_files_take_what_the_page_says(tool: ModuleType, masks: bool) -> None:
    """Every value and every pair of values."""
    accepted = 0
    for values in itertools.chain(tool.combinations(1), tool.combinations(2)):
        why, said = tool.why_not(values), over_a_network(tool, values, masks)
        assert why in said, values
        assert bool(why) == bool(said), values
        accepted += not why
    assert accepted > 250


def test_whatever_has_no_refused_part_is_accepted(tool: ModuleType) -> None:
    """Of all combinations some, drawn: those that the page claims are taken everywhere."""
    draw = random.Random(0)
    drawn: list[dict[str, Any]] = [
        {factor: draw.choice(list(values)) for factor, values in tool.FACTORS.items()}
        for _ in range(6000)
    ]
    claimed = [values for values in drawn if not tool.why_not(values)]
    assert len(claimed) > 100
    for values in claimed:
        assert tool.refusals(values)["clientwise"] == "", values
        assert over_a_network(tool, values, masks=True) == "", values


def test_a_refusal_is_found(tool: ModuleType) -> None:
    assert "two classes" in tool.why_not({"method": "af", "classes": "three classes"})
    assert not tool.why_not({"method": "lco", "solver": "solver agp"}, "pooled")
    assert "newton" in tool.why_not({"method": "lco", "solver": "solver agp"})
