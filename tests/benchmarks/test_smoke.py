"""The benchmarks run on tiny data, and the oracle detects wrong results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.arena import CONTESTANTS
from benchmarks.workload import Workload, check, gradient, make, oracle

from benchmarks import bars, cpu, fair, gpu, growth, memory, optimum
from fairsilo.data import make_table
from fairsilo.run.options import Options
from fairsilo.run.prepare import Prepared, prepare
from fairsilo.solver import Agp, Newton


def tiny(hidden: tuple[int, ...] = (), settings: int = 1) -> Workload:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=(60, 2)), np.eye(3)[rng.integers(0, 3, 60)]], axis=1)
    return make(x, rng.integers(0, 2, 60), np.array([0, 10, 40, 60]), hidden, settings)


@pytest.mark.parametrize("hidden", [(), (8, 4)])
def test_the_oracle_descends_the_loss_by_finite_differences(hidden: tuple[int, ...]) -> None:
    work = tiny(hidden)

    def loss(theta: np.ndarray) -> float:
        h = work.x.astype(np.float64)
        for weight, bias in work.layers(theta)[:-1]:
            h = np.maximum(h @ weight + bias, 0)
        weight, bias = work.layers(theta)[-1]
        z = (h @ weight + bias)[:, 0]
        return float(np.mean(np.logaddexp(0, z) - work.y * z))

    # Random, to avoid kinks: with zero biases, a row whose first layer is all zero is on one.
    theta = work.starts[0] + np.random.default_rng(1).normal(0, 0.1, work.starts.shape[1])
    steps = np.eye(len(theta)) * 1e-6
    slopes = [(loss(theta + step) - loss(theta - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient(work, theta), slopes, atol=1e-7)


def test_a_contestant_that_computes_something_else_is_refused() -> None:
    work = tiny()
    with pytest.raises(SystemExit, match="away from the oracle"):
        check(work, 3, oracle(work, 2), "cheat")
    with pytest.raises(SystemExit, match="returned 1 models instead of 2"):
        check(work, 3, oracle(work, 3), "cheat", settings=2)


@pytest.mark.process
@pytest.mark.slow
def test_contestants_without_an_environment_take_turns_and_match() -> None:
    """Only FairSilo and NumPy; the other contestants need packages from `make bench`."""
    able = [one for one in CONTESTANTS if not one.packages]
    found = cpu.turns(tiny((8, 4), 2), 2, 1, able, {"fairsilo": 3, "numpy": 2})
    assert set(found) == {"fairsilo", "numpy"}
    assert all(times["seconds"][0] > 0 for times in found.values())


@pytest.mark.slow
def test_growth_measures_time_and_memory_of_each_engine() -> None:
    assert growth.slope([10, 100, 1000], [2.0, 20.0, 200.0]) == pytest.approx(1)
    for kind, size in (("rows", 30_000), ("clients", 3), ("features", 4)):
        found = growth.measure(kind, size, 1, 2)
        assert found["cpu"] > 0
        assert found["table"] > 0
        # The kernel counts pages, and not each at once: a table of a few says nothing.
        assert found["peak"] > found["table"] or kind != "rows"
    # AGP: the loss, D_k and one gradient (features and bias), eight bytes each.
    assert found["up"] == 8 * (1 + 1 + 5)


def test_growth_tells_slopes_and_what_fedavg_costs_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(kind: str, size: int, constraints: int, rounds: int) -> dict[str, float]:
        common = {"peak": 1e6 * (50 + 3 * size), "table": 2e6 * size, "down": 8.0}
        return {"cpu": 2.0 * size * (1 + constraints), "up": 8.0 * (2 + constraints), **common}

    monkeypatch.setattr(growth, "apart", told)
    rows = growth.grow("clients", 2, [1, 10, 100], ("fedfair", "fedavg"))
    found = {(row["method"], row["quantity"], row.get("size")): row for row in rows}
    assert found["fedfair", "slope of time", None]["value"] == pytest.approx(1)
    assert found["fedavg", "CPU ms per round", 10]["ratio to ours"] == pytest.approx(0.5)
    up = found["fedavg", "bytes up per client and round", 100]
    assert up["ratio to ours"] == pytest.approx(2 / 3)
    grown = found["fedfair", "growth of the peak over the table's", None]
    assert grown["value"] == pytest.approx(1.5)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["codes", "matrix"])
def test_memory_from_a_table_is_measured(way: str) -> None:
    found = memory.measure(2_000, way)
    assert found["coded"] == 2_000 * 32
    assert found["cpu"] > 0


def test_the_large_table_is_drawn_as_codes() -> None:
    rows = growth.coded_rows(50)
    assert rows.x.shape == (50, 104)
    assert rows.x.nbytes == 50 * (8 + 6 * 4)


def test_gpu_rows_say_how_many_times_the_prototype(capsys: pytest.CaptureFixture[str]) -> None:
    line = gpu.row("10^7 rows, codes", "fairsilo", "ms per round", [2.05])
    assert line["times the prototype"] == pytest.approx(2.0)
    line = gpu.row("round", "fairsilo", "rounds per second", [103_200.0])
    assert line["times the prototype"] == pytest.approx(2.0)
    assert "times the prototype" in capsys.readouterr().out


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    path = tmp_path_factory.mktemp("table") / "table.csv"
    make_table(600, silos=3, bias=1.0, seed=2).to_csv(path, index=False)
    options = Options(data=str(path), label="label", group="group", client="client")
    return prepare(replace(options, protected_class="1"))


@pytest.mark.slow
def test_solvers_are_compared_at_the_same_gap_from_the_optimum(prepared: Prepared) -> None:
    some = ((Newton(), 20), (Agp(), 3))
    found = optimum.solve(prepared.federation, prepared.constraints, 0.05, some)
    rows = optimum.costs(found)
    cells = {(row["contestant"], row["quantity"], row["gap"]): row for row in rows}
    ours = cells["fairsilo, newton", "rounds", 1e-4]
    assert ours["arrived"]
    assert ours["value"] <= found[0][1].outcome.rounds
    assert not cells["fairsilo, agp", "rounds", 1e-5]["arrived"]
    # By hand: loss, D and one gradient in AGP's 20,000 rounds, eight bytes a number.
    size = prepared.federation.x.shape[1] + 1
    sent = cells["fairsilo, agp", "bytes up per client", None]
    assert sent["value"] == 20_000 * (2 + size) * 8


def test_the_most_accurate_of_the_fair_models_counts(prepared: Prepared) -> None:
    mine = fair.ours(prepared)
    best, is_fair = fair.chosen(prepared, mine)
    if is_fair:
        assert fair.quality(prepared, best.theta, "train")[1] <= fair.LIMIT
    line = json.dumps([{"theta": list(best.theta), "bytes": 40.0, "cpu": 2.0}] * 2)
    theirs = fair.heard(f"whatever\nRESULT {line}\n", (1.0, 0.05))
    assert [one.rounds for one in theirs] == [1, 2]
    rows = fair.rows_of("fair", prepared, {"fairsilo": mine, "declearn": theirs})
    cells = {(row["contestant"], row["quantity"]): row for row in rows}
    assert cells["declearn", "test accuracy"]["ratio to ours"] == 1
    if is_fair:
        assert cells["declearn", "rounds"]["value"] == 1
        assert cells["declearn", "rounds"]["arrived"]
    with pytest.raises(SystemExit, match="declearn died"):
        fair.heard("nothing", (1.0, 0.05))


@pytest.mark.slow
def test_results_are_drawn(tmp_path: Path) -> None:
    def row(**of: object) -> dict[str, object]:
        return {"contestant": "fairsilo", "value": 2.0, "spread": [], "ratio to ours": 1.0, **of}

    time = {"quantity": "CPU ms per round"}
    rounds = [
        row(workload="round", what="a round", **time, contestant=name, spread=[1.0, 3.0])
        for name in ("fairsilo", "numpy")
    ]
    grown = {"workload": "growth with rows", "method": "fedfair"}
    others = [
        row(workload="optimum", quantity="rounds", gap=1e-4, data="adult", arrived=False),
        row(**grown, **time, size=1000),
        row(**grown, quantity="slope of time"),
    ]
    path = tmp_path / "cpu.json"
    for rows, name in ((rounds, "round"), (rounds, "round"), (others, "others")):
        cpu.keep(name, rows, path)
    assert len(json.loads(path.read_text())) == 5
    bars.draw_all(path, tmp_path)
    assert "numpy" in (tmp_path / "benchmarks.svg").read_text()
    assert "not there" in (tmp_path / "benchmarks-optimum.svg").read_text()
    assert "fitted exponent fedfair 2.00" in (tmp_path / "benchmarks-growth.svg").read_text()
