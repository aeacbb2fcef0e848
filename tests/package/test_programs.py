"""Compiled programs are kept between commands, and nothing depends on that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from fairsilo.compute import jax, jnp
largest = jax.jit(lambda x: jnp.linalg.eigh(jnp.outer(x, x) + jnp.eye(40))[0].max())
print(float(largest(jnp.ones(40))))
"""


@pytest.mark.process
def test_programs_are_kept_where_they_can_be(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("no folder")
    own = {name: one for name, one in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    for place in (tmp_path / "kept", broken, "off"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**own, "FAIRSILO_CACHE": str(place)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert float(done.stdout) == pytest.approx(41)
        assert not done.stderr
    (folder,) = (tmp_path / "kept").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    assert any(path.name.startswith("jit_") for path in folder.iterdir())
