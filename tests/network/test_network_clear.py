"""Real processes on loopback, in the clear: server, SuperLink or a silo fails; then with noise.

As in `test_network`, the tests share one running federation, in file order.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairsilo import __version__
from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import Privacy
from fairsilo.network.ledger import read
from fairsilo.network.ops.demo import compare
from fairsilo.network.ops.launch import start_superlink
from fairsilo.network.ops.processes import command
from fairsilo.network.ops.status import status
from fairsilo.network.settings import read_settings
from fairsilo.progress import PROGRESS, held
from tests.network.misbehave import misbehaving
from tests.network.network import PATIENT, Net, federation, metrics_of, vectors_of, wait_until
from tests.network.proxy import share_found

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]
HELD, SLOW = "silo-1", "silo-4"
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
    """The run goes on by itself, twice, and says so in its notes: each time one silo's answer to
    the fourth question is awaited."""
    out, pid = tmp_path / "run", 0
    killed: list[str] = []
    net.hold(HELD, "4")

    def kill(event: dict[str, Any]) -> None:
        nonlocal pid
        pid = event.get("pid", pid)
        if event["event"] != "asking" or event["number"] != 4 or len(killed) == 2:
            return
        net.await_held(HELD)
        if not killed:
            killed.append("server")
            os.kill(pid, signal.SIGKILL)
            net.release(HELD, for_good=False)
        else:
            killed.append("SuperLink")
            net.group.kill("superlink")
            start_superlink(net.space, net.group)
            net.release(HELD)

    net.run(out, kill, wait_lost=PATIENT)
    assert killed == ["server", "SuperLink"]
    first, second = metrics_of(out)["notes"]
    assert first.startswith("the run was interrupted after question 3 (the server's process ended")
    assert second.startswith("the run was interrupted after question 3 (")
    parity = compare(net.space, out)
    assert parity.probabilities < 1e-6
    assert parity.loss < 1e-9
    assert metrics_of(out)["rounds"] == 2
    assert metrics_of(out)["clients"] == 4
    net.pace = max(entry["seconds"] for entry in metrics_of(out)["network"]["rounds"])
    # Control for the test behind masks: in the clear nearly all of the silos' numbers are found.
    assert share_found(vectors_of(net.space, tmp_path), net.proxy.received()) > 0.99
    told = (out / PROGRESS).read_bytes()
    net.run(out, audit=out)
    assert (out / PROGRESS).read_bytes() == told
    found = json.loads((out / "audit.json").read_text())
    # A silo leaves a cell with few test rows out of an audit; the others are those of the run.
    shown = [k for k, cell in enumerate(found["cells"]) if not cell["hidden"]]
    own = metrics_of(out)["test"]["cells"]
    assert len(shown) >= 2
    for k in shown:
        assert found["cells"][k]["predicted"] == own[k]["predicted"]


def test_status_and_a_signal_that_ends_the_run(net: Net, tmp_path: Path) -> None:
    """`fairsilo flower run` as a process, ended by SIGTERM as by Control-C while a silo's counts
    are awaited; then resumed, where one silo's Flower has changed: the same model, later."""
    out = tmp_path / "run"
    net.hold(HELD, "counts")
    told = [command("fairsilo"), "flower", "run", "--folder", str(net.space.folder)]
    child = subprocess.Popen([*told, "--out", str(out)], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    try:
        assert any("question 2 of 2" in line for line in child.stderr)
        net.await_held(HELD)
        seen = status(net.space)
        with pytest.raises(FairSiloError, match="another run is at work in"):
            net.run(out)
        child.send_signal(signal.SIGTERM)
        last = child.stderr.read()
        assert child.wait(timeout=PATIENT) == 130
    finally:
        child.kill()
        child.stderr.close()
    assert "interrupted; the run was ended at the SuperLink, too; --resume goes on" in last
    assert seen["superlink"]["up"]
    assert [silo["name"] for silo in seen["silos"]] == list(net.space.agreed.names)
    for silo in seen["silos"]:
        assert silo["connected"]
        assert silo["registered"]
        assert silo["fits"]
        assert silo["seconds_ago"] < 60
        assert silo["fairsilo"] == __version__
    assert seen["run"]["how"] == "running"
    assert seen["run"]["phase"] == "set-up"
    net.release(HELD)
    wait_until(lambda: not held(out, "server"))
    ended = status(net.space)["run"]
    assert (ended["how"], ended["notes"]) == ("stopped", ["interrupted by its operator"])
    # From here to the end of the next test with a node that is shortened nowhere.
    net.stop(SLOW)
    (net.space.silo(SLOW) / "changed").touch()
    net.start(SLOW)
    net.run(out, resume=True)
    assert "does not sleep 4 s any more" in net.group.log(SLOW)
    assert "rounds take seconds longer until then" in net.group.log(SLOW)
    assert metrics_of(out)["clients"] == 4
    assert compare(net.space, out).probabilities < 1e-6
    (note,) = metrics_of(out)["notes"]
    assert "(interrupted by its operator) and resumed at" in note
    assert status(net.space)["run"]["how"] == "finished"
    with pytest.raises(FairSiloError, match="has a finished run"):
        net.run(out)


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
    net.stop(SLOW)
    (net.space.silo(SLOW) / "changed").unlink()
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
    net.run(tmp_path / "run")
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
        net.run(tmp_path / "exact")
