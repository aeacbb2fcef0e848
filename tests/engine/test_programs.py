"""Compiled programs are kept in a folder of the user's own, and in no other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

from fairsilo import compute

OPTIONS = (
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_enable_xla_caches",
)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    before = {name: getattr(jax.config, name) for name in OPTIONS}
    jax.config.update("jax_compilation_cache_dir", None)  # type: ignore[no-untyped-call]
    yield
    for name, value in before.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("own", [True, False])
def test_programs_of_another_owner_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setenv(compute.CACHE, str(tmp_path))
    if not own:
        # All that is written here is somebody else's.
        monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    compute._keep_programs()
    (folder,) = tmp_path.iterdir()
    used = getattr(jax.config, OPTIONS[0])
    assert used == (str(folder) if own else None)
