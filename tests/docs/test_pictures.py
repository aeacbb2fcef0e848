"""The pictures of README and docs are there, small, and the drawn one is what its program draws."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "img"


def test_the_architecture_is_what_the_program_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tools"))
    screens = importlib.import_module("screens")
    assert (IMAGES / "architecture.svg").read_text() == screens.architecture()


def test_pictures_are_small_and_shown() -> None:
    assert max(path.stat().st_size for path in IMAGES.iterdir()) < 200_000
    home, readme = ((ROOT / name).read_text() for name in ("docs/index.md", "README.md"))
    for name in ("architecture.svg", "report-light.png", "report-dark.png"):
        assert f"(img/{name}" in home
        assert f"docs/img/{name}" in readme
    network = (ROOT / "docs" / "network.md").read_text()
    for look in ("light", "dark"):
        assert f"(img/live-{look}.png#only-{look})" in network
        assert (IMAGES / f"live-{look}.png").is_file()
