"""ST: each client alone, all in one program."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairsilo.engine import Pooled
from fairsilo.fairness import Dgeo
from fairsilo.method.base import Trained
from fairsilo.method.fedfair import fedfair
from fairsilo.method.st import batches, st, train_many
from fairsilo.partition.federation import Federation
from fairsilo.predictor.base import Plain
from fairsilo.solver import Agp, Lbfgs, Newton, Status
from tests.method.tasks import PAIR, biased, posed, problem_of


def thetas(trained: Trained) -> list[np.ndarray]:
    return [one.theta for one in trained.predictors if isinstance(one, Plain)]


@pytest.mark.slow
def test_one_client_is_fedfair_with_one_client() -> None:
    for solver in (Newton(), Lbfgs(), Agp()):
        alone = posed(biased(0, [80]), solver=solver)
        one, other = st(*alone), fedfair(*alone)
        assert one.outcome.rounds == other.outcome.rounds
        assert one.outcome.status == other.outcome.status
        np.testing.assert_allclose(thetas(one)[0], other.outcome.theta, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(one.outcome.history.d, other.outcome.history.d, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[40, 55, 31], [400, 9, 30, 12, 10, 11, 14, 9]])
def test_every_client_gets_what_it_would_get_alone(sizes: list[int]) -> None:
    federation = biased(1, sizes)
    together = st(*posed(federation))
    assert len(together.predictors) == len(sizes)
    apart = [fedfair(*posed(federation.only(i))) for i in range(3)]
    for theta, alone in zip(thetas(together), apart, strict=False):
        mine, own = Plain(problem_of(federation).model, theta), alone.predictors[0]
        np.testing.assert_allclose(
            mine.probabilities(federation.x, federation.s),
            own.probabilities(federation.x, federation.s),
            atol=1e-4,
        )
    if len(sizes) == 3:
        assert together.outcome.rounds == max(one.outcome.rounds for one in apart)
        last = np.mean([float(one.outcome.last.loss) for one in apart])
        assert float(together.outcome.last.loss) == pytest.approx(last, abs=1e-6)


def test_uneven_clients_do_not_fill_memory() -> None:
    federation = biased(2, [1000] + [3] * 40)
    groups = batches(federation)
    assert sorted(i for one in groups for i in one) == list(range(41))
    sizes = np.diff(federation.offsets)
    assert sum(len(one) * sizes[one].max() for one in groups) < 2 * federation.rows
    assert batches(biased(2, [30, 31, 30])) == [[0, 1, 2]]


@pytest.mark.slow
def test_nothing_is_sent() -> None:
    trained = st(*posed(biased(3, [30, 30])))
    assert (trained.numbers_up, trained.numbers_down) == (0, 0)


def odd(federation: Federation) -> Federation:
    """Client 0 loses cell (0, 1), client 1 all rows of class 0."""
    y, s = federation.y.copy(), federation.s.copy()
    first, second = list(federation.silos())[:2]
    s[first] = np.where(y[first] == 1, 1, s[first])
    y[second] = 1
    return replace(federation, y=y, s=s)


@pytest.mark.slow
@pytest.mark.parametrize("solver", [Newton(), Lbfgs(), Agp()])
def test_empty_cells_and_single_classes(solver: Newton | Lbfgs | Agp) -> None:
    federation = odd(biased(4, [30, 30, 60]))
    trained = st(*posed(federation, solver=solver, rounds=60))
    notes = " ".join(trained.notes)
    assert "1 of 3 clients have no row in one of the constrained cells" in notes
    assert "1 of 3 clients have rows of one class only" in notes
    for values in vars(trained.outcome.history).values():
        assert np.isfinite(values).all()
    for theta in thetas(trained):
        assert np.isfinite(theta).all()
    assert trained.predictors[1].labels(federation.x, federation.s, 0).all()
    unconstrained = fedfair(*posed(federation.only(0), pairs=(), solver=solver, rounds=60))
    np.testing.assert_allclose(thetas(trained)[0], unconstrained.outcome.theta, atol=1e-3)


@pytest.mark.slow
def test_clients_that_do_not_converge_are_counted() -> None:
    trained = st(*posed(biased(5, [50, 50]), rounds=2))
    assert trained.outcome.status is Status.RUNNING
    assert trained.notes == ("2 of 2 clients did not converge",)
    assert st(*posed(biased(5, [50, 50]))).notes == ()


@pytest.mark.slow
def test_several_pairs_are_all_met() -> None:
    federation = biased(6, [150, 160], groups=3)
    pairs = (PAIR, Dgeo(0, 2, 1), Dgeo(1, 2, 1))
    trained = st(*posed(federation, pairs=pairs, epsilon=0.01))
    assert trained.outcome.status is Status.CONVERGED
    for i, predictor in enumerate(trained.predictors):
        own = federation.only(i)
        losses = predictor.losses(own.x, own.y, own.s)
        means = [losses[(own.s == g) & (own.y == 1)].mean() for g in range(3)]
        assert max(means) - min(means) <= 0.01 + 1e-5


@pytest.mark.slow
def test_a_thin_history_has_the_same_ends_and_as_many_records_as_calls() -> None:
    federation = biased(5, [60, 80])
    problem, engine = problem_of(federation, solver=Agp(), rounds=1200), Pooled(federation)
    whole, thin = (
        train_many([problem], [engine], [0.02], None, short)[0][0].outcome
        for short in (False, True)
    )
    assert whole.rounds == thin.rounds == 1200
    assert len(np.asarray(whole.history.loss)) == 1200
    assert len(np.asarray(thin.history.loss)) == 3
    for record in (499, 999, 1199):
        np.testing.assert_allclose(
            np.asarray(thin.history.loss)[record // 500], np.asarray(whole.history.loss)[record]
        )
