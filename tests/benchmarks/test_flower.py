"""What `benchmarks.flower` keeps, and the table that docs/network.md has of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import flower
from tests.docs.test_what_works import loaded

ROWS = 1600
PHASES = ("start", "connect", "set-up", "rounds", "evaluation")
MADE = {
    "training rows": 40_000.0, "rounds": 9.0, "seconds of the rounds": 5.4, "cores": 2.0,
    "CPU seconds a round, all processes": 0.914, "exchanges before the first round": 8.0,
    "seconds in all, from the first start to the last answer": 21.3, "exchanges": 38.0,
    "kB sent by a silo": 894.0, "kB received by a silo": 64.0, "load before": 0.25,
    "difference of probabilities from the simulation": 3e-9, "difference of the loss": 1e-16,
    **{f"seconds of the phase {name}": 1.0 + k for k, name in enumerate(PHASES)},
}  # fmt: skip


def made(name: str, pace: float, contestant: str = flower.OURS, run: int = 1) -> list[flower.Line]:
    return flower.lines_of(name, contestant, {**MADE, "seconds a round": pace}, run)


def test_the_page_has_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, path = loaded("quoted"), tmp_path / "flower.json"
    page = next(one for one in tool.PAGES if one.name == "network.md")
    monkeypatch.setattr(tool.measured, "NETWORK", path)
    assert tool.page(page) == page.read_text(), "as long as nothing is stored"
    base = flower.workload(4, None, True, False)
    flower.keep(made(base, 9.0), path)
    flower.keep([line for k in (1, 2) for line in made(base, k / 2, run=k)], path)
    assert [one["value"] for one in kept(path, base) if one["quantity"] == "seconds a round"] == [
        0.5, 1.0,
    ]  # fmt: skip
    flower.keep(made(flower.workload(4, None, True, True), 0.9), path)
    flower.keep(made(flower.workload(20, None, True, False), 3.0), path)
    flower.keep(made(base, 7.5, flower.OWN_WAITS), path)
    # Nobody quotes a small run.
    flower.keep(made(flower.workload(4, ROWS, True, False), 0.01), path)
    start = {"seconds": 2.0, "CPU seconds": 1.8, "MB": 166.0}
    flower.keep(flower.lines_of(flower.START, "a silo's worker", start), path)
    text = tool.page(page)
    for line in (
        "| training rows | 40,000 |", "| rounds to the optimum | 9 |",
        "| exchanges before the rounds, in all | 8, 38 |",
        "| seconds by phase: start, connect, set-up, rounds, evaluation | "
        "1.0; 2.0; 3.0; 4.0; 5.0 |",
        "| sent by a silo, received by a silo | 894 kB, 64 kB |",
        "| a silo's worker: CPU until it can answer, memory | 1.8 s, 166 MB |",
        "of the loss | 3e-09, 1e-16 |",
        "| 4 | 0.75 (0.50 to 1.00, 2 runs) | 0.91 | 21 | 1.00 |",
        "| 4 and a witness, `--witness` | 0.90 | 0.91 | 21 | 1.20 |",
        "| 20, `--silos 20` | 3.00 | 0.91 | 21 | 4.00 |",
        "| 4, nodes with Flower's own waits | 7.50 | 0.91 | 21 | 10.00 |",
        "Medians, on 2 cores; load before a run at most 0.2.",
    ):  # fmt: skip
        assert f"{line}\n" in text, line
    assert "0.01" not in text
    assert "Twenty silos on the same two cores" not in text


def kept(path: Path, name: str) -> list[flower.Line]:
    return [one for one in json.loads(path.read_text()) if one["workload"] == name]


@pytest.mark.process
@pytest.mark.slow
def test_a_node_with_flowers_own_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    before = dict(os.environ)
    for own in (True, False):
        with flower.waiting(own):
            node = [sys.executable, "-W", "ignore", "-m", "fairsilo.network.ops.node", "--version"]
            # Its pipe held open: a node without its program ends.
            child = subprocess.Popen(node, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            child.wait(60)
            with child:
                assert child.stderr is not None
                assert ("does not sleep 4 s any more" in child.stderr.read()) is own
        assert dict(os.environ) == before
