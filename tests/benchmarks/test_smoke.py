"""The benchmarks run on tiny data, so that they never rot, and the oracle catches a cheat."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.arena import CONTESTANTS
from benchmarks.workload import Workload, check, gradient, make, oracle

from benchmarks import bars, cpu, gpu, growth


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

    # Away from the kinks: a row whose first layer is silent sits on one while biases are zero.
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


def test_contestants_without_an_environment_take_turns_and_match() -> None:
    """Ours and NumPy's; the peers need what `make bench` installs."""
    able = [one for one in CONTESTANTS if not one.packages]
    found = cpu.turns(tiny((8, 4), 2), 2, 1, able, {"fairsilo": 3, "numpy": 2})
    assert set(found) == {"fairsilo", "numpy"}
    assert all(times["seconds"][0] > 0 for times in found.values())


def test_growth_measures_time_and_memory_of_each_engine() -> None:
    assert growth.slope([10, 100, 1000], [2.0, 20.0, 200.0]) == pytest.approx(1)
    for kind, size in (("clients", 3), ("rows", 300), ("features", 4)):
        found = growth.measure(kind, size, 1, 2)
        assert found["cpu"] > 0
        assert found["peak"] > found["table"] > 0


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


def test_results_are_drawn(tmp_path: Path) -> None:
    rows = [
        {
            "workload": "round",
            "what": "a round",
            "contestant": name,
            "quantity": "CPU ms per round",
            "value": value,
            "spread": [value, value],
            "ratio to ours": value,
        }
        for name, value in (("fairsilo", 1.0), ("numpy", 3.0))
    ]
    path = tmp_path / "cpu.json"
    cpu.keep("round", rows, path)
    cpu.keep("round", rows, path)
    assert len(json.loads(path.read_text())) == 2
    bars.draw(path, tmp_path / "bars.svg")
    assert "numpy" in (tmp_path / "bars.svg").read_text()
