"""The command that a run names is the one that gives its options."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fairsilo.cli.shared_options import OPTIONS, options_from, takes
from fairsilo.run import Options
from fairsilo.run.command import command_of

GIVEN: dict[str, Any] = {"data": "a table.csv", "label": "y", "group": "sex", "clients": 3}


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"seed": 7, "drop_group": True, "drop": ("a,b", "it's"), "thousands": " ", "sep": ";"},
        {"groups": ("low, high", "x"), "epsilon": 0.02, "epsilons": (("a:b", 0.125),)},
        {"notion": "demographic-parity"},
        {"notion": "demographic-parity", "epsilon": 0.05, "decide_at": "f1"},
        {"target_deo": 0.02, "target_by": "search", "decide_at": "0.3"},
        {"method": "thresholds", "after": "fedfair", "epsilon": 0.1, "target_deo": 0.05},
        {"model": "mlp", "hidden": (32, 16), "early_stopping": True, "solver": "lbfgs"},
        {"class_weight": "yes=3,no=0.5", "weight": "w", "penalty": "0.5"},
        {"class_weight": "balanced", "penalty": "auto", "test_fraction": 0.3},
        {"dp_epsilon": 4.0, "dp_split": (0.2, 0.6, 0.2), "maximum_weight": 3.0, "weight": "w"},
    ],
)
def test_the_command_gives_the_options(told: dict[str, Any]) -> None:
    meant = Options(**{**GIVEN, **told})
    found: list[Options] = []
    app = typer.Typer()

    @app.command()
    @takes(OPTIONS)
    def train(given: dict[str, Any]) -> None:
        found.append(options_from(given))

    _, _, *words = shlex.split(command_of(meant))
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert found == [meant]


def test_places_are_not_told() -> None:
    options = replace(Options(**GIVEN), data="/home/me/t.csv")
    assert command_of(options).startswith("fairsilo train --data t.csv --label y")
