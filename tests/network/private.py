"""Silos under differential privacy, for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairsilo.dp import Release
from fairsilo.network.federation_file import Privacy
from fairsilo.network.ledger import read
from tests.network.silos import Town, make_town

PROMISE = Privacy(epsilon=8.0)


def make(folder: Path, **values: Any) -> Town:
    return make_town(folder, **{"dp": PROMISE, "rounds": 3, "epsilon": 0.1, **values})


def spent_by(town: Town, name: str = "silo0") -> list[Release]:
    return read(town.folder / name / "ledger.json").releases


def set_budget(town: Town, epsilon: float) -> None:
    path = town.settings("silo0")
    path.write_text(path.read_text().replace("epsilon = 8.0", f"epsilon = {epsilon}"))
