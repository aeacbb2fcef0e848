"""The command for a missing part is the one that works here."""

import sys

import pytest

from fairsilo.extras import install


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("/home/me/.local/share/pipx/venvs/fairsilo", "pipx inject fairsilo"),
        ("/home/me/.local/share/uv/tools/fairsilo", "uv tool install"),
        ("/home/me/project/.venv", "pip install"),
    ],
)
def test_by_how_it_was_installed(monkeypatch: pytest.MonkeyPatch, prefix: str, words: str) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    assert install("export").startswith(words)
    assert "[export]" in install("export")
