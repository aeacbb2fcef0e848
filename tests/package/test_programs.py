"""Compiled programs are kept between commands, and nothing depends on that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairsilo.data import make_table

PROGRAM = """
from fairsilo.compute import jax, jnp
largest = jax.jit(lambda x: jnp.linalg.eigh(jnp.outer(x, x) + jnp.eye(40))[0].max())
print(float(largest(jnp.ones(40))))
"""


TRAINING = """
import sys
sys.modules.update(dict.fromkeys(("jax", "jaxlib")))
from fairsilo.cli import main
main()
"""


@pytest.mark.process
def test_logistic_regression_trains_without_jax(tmp_path: Path) -> None:
    """By Newton on a CPU: nothing is compiled, and JAX is not even loaded."""
    make_table(300, silos=3, bias=1.0, seed=0).to_csv(tmp_path / "table.csv", index=False)
    data = ["--data", str(tmp_path / "table.csv"), "--label", "label", "--protected-class", "1"]
    who = ["--group", "group", "--client", "client", "--epsilon", "0.05"]
    command = [sys.executable, "-c", TRAINING, "train", *data, *who, "--out", str(tmp_path / "run")]
    subprocess.run(command, capture_output=True, check=True)
    assert (tmp_path / "run" / "report.html").exists()


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
