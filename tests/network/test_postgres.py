"""A silo whose table is in PostgreSQL, with a real server if its programs are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sqlalchemy

from fairsilo.errors import FairSiloError
from fairsilo.network.ops.processes import free_ports
from fairsilo.network.settings import Settings, read_settings
from fairsilo.network.silo import answer
from fairsilo.network.table import read_sql
from fairsilo.network.wire import Ask
from fairsilo.question import Columns
from tests.network.silos import make_town


def _as_somebody(command: list[str]) -> list[str]:
    """Run a command as another user if root (as in containers): PostgreSQL refuses root."""
    if os.getuid() != 0:
        return command
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("psycopg")
    found = {name: shutil.which(name) for name in ("initdb", "pg_ctl")}
    if not all(found.values()):
        pytest.skip("NOT TESTED on PostgreSQL: its programs are not installed")
    # Not below tmp_path_factory's folder, which only its owner may enter.
    folder = Path("/tmp") / f"fairsilo-pg-{os.getpid()}"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    port = free_ports(1)[0]
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder}"
    start = [*(str(found["pg_ctl"]), "-D", str(folder / "db"), "-w", "-l", str(folder / "log"))]
    try:
        _run([str(found["initdb"]), "-D", str(folder / "db"), "-A", "trust", "-U", "bank"])
        _run([*start, "-o", options, "start"])
        try:
            yield f"postgresql+psycopg://bank:hunter2@127.0.0.1:{port}/postgres"
        finally:
            _run([*start, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        _as_somebody(command), capture_output=True, text=True, timeout=60, check=False, cwd="/"
    )
    if done.returncode:
        pytest.skip(f"NOT TESTED on PostgreSQL: {done.stderr.strip()[-300:]}")


@pytest.mark.process
def test_answers_like_the_file_it_was_made_from(url: str, tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    frame = pd.read_csv(town.folder / "silo0" / "table.csv")
    engine = sqlalchemy.create_engine(url)
    frame.to_sql("loans", engine, index_label="id")
    engine.dispose()
    settings = Settings(
        name="silo0",
        federation=Path("unused"),
        ledger=tmp_path / "ledger.json",
        url=url,
        query='select x0, x1::numeric, x2, x3, c0, "group", label, part from loans order by id',
        plain=True,
    )
    ask = Ask(Columns(), 1, town.agreed.fingerprint, "fedfair", training="one")
    here = answer(read_settings(town.settings("silo0")), town.agreed, ask, {})
    np.testing.assert_allclose(answer(settings, town.agreed, ask, {}), here, rtol=1e-12)


@pytest.mark.process
def test_a_failing_query_does_not_tell_the_password(url: str) -> None:
    with pytest.raises(FairSiloError, match="did not answer the query") as caught:
        read_sql(url, "select * from nothing")
    assert "hunter2" not in str(caught.value)
