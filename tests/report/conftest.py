"""A browser for the tests that look at pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.browser import Browser, find_chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip(
            "NOT TESTED in a browser: no chromium, chromium-browser or google-chrome on the path; "
            "install one (Debian: apt-get install chromium)"
        )
    with Browser(program, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Browser]:
    """The browser; fails if a page wrote to the console, raised or made a request."""
    yield browser
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
