"""Real processes on loopback, in the clear: server, SuperLink or a silo fails; then with noise.

As in `test_network`, the tests share one running federation, in file order.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import Privacy
from fairsilo.network.ledger import read
from fairsilo.network.ops.demo import compare
from fairsilo.network.ops.launch import start_superlink
from fairsilo.network.settings import read_settings
from tests.network.misbehave import misbehaving
from tests.network.network import Net, federation, metrics_of, vectors_of
from tests.network.proxy import share_found

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]
SILOS = 7
"""All silos; the first four are the federation of the first test."""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    """SuperLink and nodes of the first four silos."""
    with federation(tmp_path_factory.mktemp("network"), SILOS) as found:
        found.agree(silos=found.all[:4], secure_aggregation=False)
        found.start_all()
        yield found


def test_server_and_superlink_killed_in_the_clear(net: Net, tmp_path: Path) -> None:
    out, pid = tmp_path / "run", 0

    def kill_server(event: dict[str, Any]) -> None:
        nonlocal pid
        pid = event.get("pid", pid)
        if event["event"] == "round":
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(FairSiloError, match="ended before the run did: use `resume`"):
        net.run(out, kill_server)

    def kill_superlink(event: dict[str, Any]) -> None:
        if event["event"] == "replayed" and net.group.alive("superlink"):
            net.group.kill("superlink")

    with pytest.raises(FairSiloError, match="use `resume`"):
        net.run(out, kill_superlink, resume=True)
    start_superlink(net.space, net.group)
    net.run(out, resume=True, wait=120)
    parity = compare(net.space, out)
    assert parity.probabilities < 1e-6
    assert parity.loss < 1e-9
    assert metrics_of(out)["rounds"] == 2
    assert metrics_of(out)["clients"] == 4
    net.pace = max(entry["seconds"] for entry in metrics_of(out)["network"]["rounds"])
    # Control for the test behind masks: in the clear nearly all of the silos' numbers are found.
    assert share_found(vectors_of(net.space, tmp_path), net.proxy.received()) > 0.99
    net.run(out, audit=out)
    found = json.loads((out / "audit.json").read_text())
    # A silo leaves a cell with few test rows out of an audit; the others are those of the run.
    shown = [k for k, cell in enumerate(found["cells"]) if not cell["hidden"]]
    own = metrics_of(out)["test"]["cells"]
    assert len(shown) >= 2
    for k in shown:
        assert found["cells"][k]["predicted"] == own[k]["predicted"]


def test_a_silo_that_fails_is_left_out_and_named(net: Net, tmp_path: Path) -> None:
    """Another table, an oversized answer, NaN, a wrong round; one silent, one killed meanwhile."""
    ways = {"silo-3": "round silent", "silo-2": "round silent", "silo-5": "columns oversized"}
    ways |= {"silo-6": "counts nan", "silo-7": "counts round"}
    net.agree(minimum_silos=1, silos=net.all)
    table = net.space.silo("silo-4") / "table.csv"
    shutil.copy(table, tmp_path / "table.csv")
    table.write_text(table.read_text().replace("education", "schooling"))
    try:
        with misbehaving(net, ways):
            net.run(tmp_path / "run", timeout=net.patience)
    finally:
        shutil.copy(tmp_path / "table.csv", table)
        # Its answer now is late and belongs to a run that has ended.
        (net.space.silo("silo-3") / "answer").touch()
    # These silos are not asked again.
    for name in ("silo-1", "silo-6", "silo-7"):
        net.group.kill(name)
    metrics = metrics_of(tmp_path / "run")
    told = " ".join(metrics["notes"])
    assert "silo-4 refused: its table or settings do not fit the federation file" in told
    assert "silo-5 sent 2,500,000 numbers instead of" in told
    assert "silo-6 sent a number that is not finite (counts question" in told
    assert "silo-7 answered question 3 (counts) instead of 2 (counts)" in told
    assert f"silo-3 did not answer within {net.patience:g} s (round question" in told
    assert "silo-2" in told
    assert "training went on with the other 1, weights taken anew" in told
    assert metrics["clients"] == 1
    # The encoder was fitted with silos that failed later; the steps hardly depend on it.
    left_out = net.space.agreed.names[1:]
    assert compare(net.space, tmp_path / "run", left_out).loss < 1e-6


def test_with_noise_what_a_silo_released_stands_in_its_own_ledger(net: Net, tmp_path: Path) -> None:
    """Behind masks, over three silos of which one just gave its late answer to the test above."""
    # At epsilon 4 the noise hides these silos' few women with >50K in one run of three.
    promise = Privacy(epsilon=40.0)
    net.agree(dp=promise, secure_aggregation=True, minimum_silos=3, silos=net.all[2:5])
    for name in net.space.agreed.names:
        settings = net.space.silo(name) / "silo.toml"
        settings.write_text(settings.read_text() + "\ndp_budget_epsilon = 40.0\n")
    net.start_all()
    net.run(tmp_path / "run", timeout=net.patience)
    metrics = metrics_of(tmp_path / "run")
    assert metrics["network"]["secure_aggregation"]
    assert 0 < metrics["dp"]["epsilon_spent"] <= promise.epsilon
    assert 0.5 < metrics["test"]["accuracy"] <= 1
    for name in net.space.agreed.names:
        released = read(read_settings(net.space.silo(name) / "silo.toml").ledger).releases
        assert len(released) == metrics["dp"]["releases"]
    # From now on exact sums of these rows are refused.
    net.agree(dp=None, secure_aggregation=False)
    with pytest.raises(FairSiloError, match="refused: this silo has a privacy budget"):
        net.run(tmp_path / "exact", timeout=net.patience)
