"""Real processes on loopback, behind masks: SuperLink, nodes, TLS, keys; strangers, a silo killed.

An exchange takes seconds here, so the tests of a file share one running federation, in file order,
and runs have two rounds: the first sums are at zero, the second at a model. Rounds are a pure
function of the sums, and the simulation is stopped after the same number.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE as PROTOBUF

from fairsilo.errors import FairSiloError
from fairsilo.network import left
from fairsilo.network.approval import decide
from fairsilo.network.ops.demo import compare
from fairsilo.network.ops.follow import follow
from fairsilo.network.ops.processes import free_ports
from fairsilo.network.ops.runs import RunConfig, submit
from fairsilo.network.ops.worker import LOST
from fairsilo.network.settings import read_settings
from fairsilo.run import load
from tests.network.intruder import listening, register_key, run_foreign
from tests.network.misbehave import misbehaving, worker_killed
from tests.network.network import PATIENT, Net, federation, metrics_of, vectors_of, wait_for
from tests.network.proxy import share_found
from tests.network.stranger import LOOT, attack, stock_node

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]
LATE = "silo-4"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    """SuperLink and the nodes of three of four silos; the fourth joins late."""
    with federation(tmp_path_factory.mktemp("network"), 4) as found:
        for name in found.space.agreed.names:
            if name != LATE:
                found.start(name)
        yield found


def test_a_foreign_app_is_refused_and_robs_only_flowers_own_node(net: Net, tmp_path: Path) -> None:
    """The same run, before any other: three silos as they are, one as Flower would have it."""
    names = net.space.agreed.names
    net.group.start(LATE, *stock_node(net.space, LATE, free_ports(1)[0]))
    for name in names:
        wait_for(partial(net.group.log, name), "SuperNode ID")
    told = attack(net.space, tmp_path)
    robbed = (net.space.silo(LATE) / LOOT).read_text()
    key = (net.space.silo(LATE) / "node.key").read_text()
    assert robbed == key + (net.space.silo(LATE) / "table.csv").read_text()
    refused = [one for one in told if one != key]
    assert (len(told), len(refused)) == (4, 3)
    assert all("nothing was run" in one and "fairsilo flower init" in one for one in refused)
    for name in names:
        if name != LATE:
            assert refused[0] in net.group.log(name).replace("\n", "")
            assert not (net.space.silo(name) / LOOT).exists()
            # Not even unpacked, as Flower does below its home before it runs an app.
            assert not list(net.space.silo(name).rglob("*stranger*"))
    assert list(net.space.silo(LATE).rglob("*stranger*"))
    net.stop(LATE)


def test_behind_masks_with_a_late_silo_and_strangers_at_the_door(net: Net, tmp_path: Path) -> None:
    """After the attack; silo-1's worker is killed within an answer, silo-3's owner is asked."""
    out, health = tmp_path / "run", free_ports(1)[0]
    asking = net.space.silo("silo-3") / "silo.toml"
    asking.write_text(asking.read_text().replace('approve = "listed"', 'approve = "ask"'))
    run = submit(net.space, RunConfig(out=out, wait=PATIENT, wait_lost=0))
    net.start(LATE, "--health-port", str(health))
    net.start_stranger("no-key")
    net.start_stranger("other-ca")
    told: list[list[str]] = []

    def say_yes(event: dict[str, Any]) -> None:
        if event["event"] == "approval":
            told.append(event["silos"])
            if event["silos"]:
                decide(read_settings(asking), net.space.agreed, run)

    with worker_killed(net, "silo-1", "columns") as killed:
        follow(net.space, run, out, say_yes)
    assert told == [["silo-3"], []]
    asking.write_text(asking.read_text().replace('approve = "ask"', 'approve = "listed"'))
    assert "the worker ended (signal 9); it is started again" in net.group.log("silo-1")
    assert LOST in net.group.log("silo-1")
    assert net.worker("silo-1") not in (0, *killed)
    answered = httpx.get(f"http://127.0.0.1:{health}/health", timeout=PATIENT)
    assert (answered.status_code, answered.json()["healthy"]) == (200, True)
    assert answered.json()["replies"] == len(left.read(net.space.silo(LATE) / "left.jsonl")) > 10
    text = httpx.get(f"http://127.0.0.1:{health}/metrics", timeout=PATIENT).text
    assert 'fairsilo_process_up{process="SuperNode"} 1' in text
    wait_for(lambda: net.group.log("no-key"), "the SuperLink does not know this silo's key")
    wait_for(lambda: net.group.log("other-ca"), "CERTIFICATE_VERIFY_FAILED")
    for name in ("no-key", "other-ca"):
        assert "SuperNode ID" not in net.group.log(name)
    # Registered now, it comes in by itself: it kept trying.
    register_key(net.space, net.space.silo("no-key") / "node.key.pub")
    wait_for(lambda: net.group.log("no-key"), "SuperNode ID")
    for name in ("no-key", "other-ca"):
        net.group.kill(name)
    found = compare(net.space, out)
    assert found.probabilities < 1e-6
    assert found.loss < 1e-9
    metrics = metrics_of(out)
    net.pace = max(entry["seconds"] for entry in metrics["network"]["rounds"]) / 2
    assert metrics["network"]["secure_aggregation"]
    assert metrics["clients"] == 4
    assert metrics["train"]["loss"] < 0.6, "that of a model, not of the point it starts from"
    assert not (out / "journal").exists()
    assert load(out).description["client_names"] == list(net.space.agreed.names)
    assert "PRIVATE KEY" not in net.group.log("superlink")
    # None of the thousands of numbers that silos computed occurs in what they sent.
    assert share_found(vectors_of(net.space, tmp_path), net.proxy.received()) == 0.0


def test_a_stranger_at_the_port_controls_nothing(net: Net, tmp_path: Path) -> None:
    """Whose app does run where control is open: at the SuperLink's own port, on loopback."""
    own = {net.space.address: 403, net.space.control: 200}
    with httpx.Client(verify=False, timeout=PATIENT) as stranger:
        for address, status in own.items():
            for path in ("list-runs", "list-nodes"):
                url, kind = f"https://{address}/v1/control/{path}", {"content-type": PROTOBUF}
                assert stranger.post(url, headers=kind).status_code == status
            url = f"https://{address}/v1/runtime/acquire-task"
            assert (stranger.post(url, headers=kind).status_code == 403) == (status == 403)
    done = run_foreign(net.space, tmp_path / "public", net.space.address)
    assert done["success"] is False
    assert "this port is for the silos' nodes only" in done["error-message"]
    told = net.group.log("superlink")
    assert "refused 'POST /v1/control/start-run' from 127.0.0.1 (403)" in told
    done = run_foreign(net.space, tmp_path / "loopback", net.space.control)
    assert done["success"] is True
    left = tmp_path / "loopback" / "executed"
    wait_for(lambda: left.read_text() if left.exists() else "", "here")
    assert not (tmp_path / "public" / "executed").exists()


def test_nothing_but_the_gateway_listens_beyond_loopback(net: Net) -> None:
    hosts = {address for pid in net.group.pids("superlink") for address in listening(pid)}
    assert hosts == {net.space.address, net.space.control}


def test_counts_over_one_silo_less_are_refused_in_a_later_run(net: Net, tmp_path: Path) -> None:
    """The first test opened the counts of four silos; those of three would reveal silo-2's."""
    net.agree(silos=tuple(silo for silo in net.all if silo.name != "silo-2"))
    with pytest.raises(FairSiloError, match=r"refused: .* one silo's share by subtraction"):
        net.run(tmp_path / "run")


def test_killed_behind_masks_it_is_the_simulation_without_it(net: Net, tmp_path: Path) -> None:
    """silo-2 shares its masks, is asked for its sums, and is killed before it sends them."""
    net.agree(recount=True, silos=net.all)
    with misbehaving(net, {"silo-2": "columns silent"}):
        net.run(tmp_path / "run", timeout=net.patience)
    metrics = metrics_of(tmp_path / "run")
    assert "silo-2" in metrics["notes"][0]
    assert metrics["network"]["secure_aggregation"]
    assert metrics["clients"] == 3
    found = compare(net.space, tmp_path / "run", ("silo-2",))
    assert found.probabilities < 1e-6
    assert found.loss < 1e-9
