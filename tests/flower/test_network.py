"""Real processes on loopback, behind masks: SuperLink, nodes, TLS, keys; strangers, a silo killed.

An exchange takes seconds here, so the tests of a file share one running federation, in file order,
and runs have two rounds: the first sums are at zero, the second at a model. Rounds are a pure
function of the sums, and the simulation is stopped after the same number.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairsilo.errors import FairSiloError
from fairsilo.flower.demo import compare
from fairsilo.flower.launch import RunConfig, follow, submit
from fairsilo.run import load
from tests.flower.misbehave import misbehaving
from tests.flower.network import Net, federation, metrics_of, vectors_of, wait_for
from tests.flower.proxy import share_found

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.usefixtures("bounded")]
LATE = "silo-4"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Net]:
    """SuperLink and the nodes of three of four silos; the fourth joins late."""
    with federation(tmp_path_factory.mktemp("network"), 4) as found:
        for name in found.space.charter.names:
            if name != LATE:
                found.start(name)
        yield found


def test_behind_masks_with_a_late_silo_and_strangers_at_the_door(net: Net, tmp_path: Path) -> None:
    out = tmp_path / "run"
    run = submit(net.space, RunConfig(out=out, wait=90))
    net.start(LATE)
    net.start_stranger("no-key")
    net.start_stranger("other-ca")
    follow(net.space, run, out, lambda event: None)
    wait_for(lambda: net.group.log("no-key"), "Failed to activate SuperNode")
    wait_for(lambda: net.group.log("other-ca"), "CERTIFICATE_VERIFY_FAILED")
    assert "SuperNode ID" in net.group.log(LATE)
    for name in ("no-key", "other-ca"):
        assert "SuperNode ID" not in net.group.log(name)
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
    assert load(out).description["client_names"] == list(net.space.charter.names)
    assert "PRIVATE KEY" not in net.group.log("superlink")
    # None of the thousands of numbers that silos computed occurs in what they sent.
    assert share_found(vectors_of(net.space, tmp_path), net.proxy.received()) == 0.0


def test_counts_over_one_silo_less_are_refused_in_a_later_run(net: Net, tmp_path: Path) -> None:
    """The first test opened the counts of four silos; those of three would reveal silo-2's."""
    net.agree(silos=tuple(silo for silo in net.all if silo.name != "silo-2"))
    with pytest.raises(FairSiloError, match=r"refused: .* one silo's share by subtraction"):
        net.run(tmp_path / "run", timeout=net.patience)


def test_killed_behind_masks_it_is_the_simulation_without_it(net: Net, tmp_path: Path) -> None:
    """silo-2 shares its masks, is asked for its sums, and is killed before it sends them."""
    net.agree(recount=True, silos=net.all)
    with misbehaving(net, {"silo-2": "encoder silent"}):
        net.run(tmp_path / "run", timeout=net.patience)
    metrics = metrics_of(tmp_path / "run")
    assert "silo-2" in metrics["notes"][0]
    assert metrics["network"]["secure_aggregation"]
    assert metrics["clients"] == 3
    found = compare(net.space, tmp_path / "run", ("silo-2",))
    assert found.probabilities < 1e-6
    assert found.loss < 1e-9
