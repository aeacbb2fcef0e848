"""A theta that is too steep is refused, by what is declared of the columns alone."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairsilo.arrays import Floats
from fairsilo.compute import jnp
from fairsilo.data import Category, Encoder, Number, Schema
from fairsilo.data.encoder import Scaling
from fairsilo.model import MODELS, Model
from fairsilo.network.bounds import check_scores, largest_score
from fairsilo.network.client import reply_to
from fairsilo.network.encoding import scalings_of
from fairsilo.network.federation_file import Privacy
from fairsilo.network.settings import read_settings
from fairsilo.network.wire import Ask, Refusal, unpack
from fairsilo.question import Columns, Counts, Evaluate, Round
from fairsilo.question.agnostic import POINTS, Attack
from tests.network.silos import Town, make_town
from tests.network.test_silo import ask_of, round_at, set_line

STEEP = 1e7


def encoder() -> Encoder:
    """A number with bounds, one without that can be missing, two kinds of categories."""
    features = (
        Number(name="age", bounds=(10.0, 90.0)),
        Number(name="pay"),
        Category(name="job", values=("a", "b", "c")),
        Category(name="home", values=("u", "v"), missing=True, other=True),
    )
    schema = Schema(features=features, label="y", classes=("0", "1"), group="g", groups=("p", "q"))
    return Encoder(schema, (Scaling(40.0, 20.0, False), Scaling(5.0, 2.0, True)))


def every_corner() -> Floats:
    """All rows at the ends of the declared ranges, written down by hand."""
    age = [[(10 - 40) / 20], [(90 - 40) / 20], [0.0]]
    pay = [[-10.0, 0.0], [10.0, 0.0], [0.0, 1.0]]
    job: list[list[float]] = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]]
    home: list[list[float]] = np.eye(4).tolist()
    rows = itertools.product(age, pay, job, home)
    return np.array([np.concatenate(one) for one in rows])


@pytest.mark.parametrize("classes", [2, 3])
def test_the_largest_score_of_a_linear_model_is_that_of_the_worst_row(classes: int) -> None:
    model, rng = MODELS["lr"](10, classes), np.random.default_rng(0)
    for _ in range(20):
        theta = rng.normal(size=model.size)
        scores = np.asarray(model.scores(jnp.asarray(theta), every_corner()))
        np.testing.assert_allclose(
            largest_score(model, theta, encoder()), np.abs(scores).max(), rtol=1e-12
        )


def test_the_bound_of_a_network_holds_for_every_row_and_is_not_absurd() -> None:
    model, rng = MODELS["mlp"](10, 2), np.random.default_rng(0)
    corners = every_corner()
    inside = corners[rng.integers(len(corners), size=500)]
    inside[:, :2] *= rng.random((500, 2))
    for seed in range(3):
        theta = 2 * model.start(seed)
        scores = np.asarray(model.scores(jnp.asarray(theta), np.vstack([corners, inside])))
        bound = largest_score(model, theta, encoder())
        assert np.abs(scores).max() <= bound < 20 * np.abs(scores).max()


def test_an_own_model_is_bounded_by_its_largest_parameter() -> None:
    own = Model("own", 10, 2, lambda key: np.zeros(3), lambda params, x: x[:, :1] * params[0])
    assert largest_score(own, np.array([1.0, -7.0, 2.0]), encoder()) == 7.0


def asked(town: Town, ask: Ask, memories: dict[str, Any]) -> Floats:
    """The sum of all silos' answers: what a server sees that only chooses theta."""
    total: Floats = np.zeros(1)
    for name in town.agreed.names:
        memory = memories.setdefault(name, {})
        reply = reply_to(ask.to_record(), str(town.settings(name)), memory, "1")
        if reply["refused"]:
            raise Refusal(reply["refused"])
        total = total + unpack(reply["vector"])
    return total


def read_a_row(town: Town, slope: float) -> tuple[Floats, Floats, int]:
    """Attack 2 of the review: the row whose x0 is largest, and what it took.

    At theta = slope (x0 - c) every row above c counts as 1, every other as 0, and the gradient is
    a sum over rows of (0 or 1, less y) (1, x). So two points tell how many rows lie between them,
    and where it is one, that row.
    """
    memories: dict[str, Any] = {}
    fixed: dict[str, Any] = {
        "number": 1,
        "fingerprint": town.agreed.fingerprint,
        "purpose": town.agreed.method,
        "training": "one",
    }
    sums = Columns().read(town.agreed.problem(None), asked(town, Ask(Columns(), **fixed), memories))
    fitted = Encoder.fit(town.agreed.table, sums)
    more = {**fixed, "encoded": True, "scalings": scalings_of(fitted)}
    totals = asked(town, Ask(Counts(), **more), memories)
    problem = town.agreed.problem(scalings_of(fitted))
    questions = 0

    def gradient(c: float) -> Floats:
        nonlocal questions
        questions += 1
        theta = np.zeros(problem.model.size)
        theta[0], theta[1] = -slope * c, slope
        question = Round(theta, np.zeros(1), "first", totals)
        found = question.read(problem, asked(town, Ask(question, **more), memories))
        whole: Floats = np.asarray(found.grad) * totals[0]
        return whole

    low, high = 0.0, 9.0
    nobody = gradient(high)
    while True:
        c = (low + high) / 2
        row = gradient(c) - nobody
        if abs(row[0] - 1) < 1e-3 or questions == 20:
            break
        low, high = (c, high) if row[0] > 1 else (low, c)
    train = town.table[town.table["part"] == "train"]
    largest = train.loc[[train["x0"].idxmax()]]
    return row[1:], fitted.transform(largest)[0], questions


def test_a_steep_theta_reads_a_row_out_and_is_refused(tmp_path: Path) -> None:
    town = make_town(tmp_path, secure_aggregation=False)
    with pytest.raises(Refusal, match=r"scores reach .* up to 2000 \(maximum_score\)"):
        read_a_row(town, STEEP)
    for name in town.agreed.names:
        path = town.settings(name)
        path.write_text(path.read_text() + "maximum_score = 1e12\n")
    row, true, questions = read_a_row(town, STEEP)
    np.testing.assert_allclose(row, true, atol=1e-9)
    assert questions <= 10


def test_within_the_bound_a_server_still_learns_of_single_rows(tmp_path: Path) -> None:
    """The same attack, as steep as is let through: here the largest x0 is half a deviation above
    the next, and that is enough."""
    town = make_town(tmp_path, secure_aggregation=False, table={"seed": 1})
    row, true, _ = read_a_row(town, 50.0)
    assert np.abs(row - true).max() < 0.02


@pytest.mark.parametrize("purpose", ["training", "audit"])
def test_every_question_with_a_point_is_bounded(tmp_path: Path, purpose: str) -> None:
    method = "af" if purpose == "training" else "fedfair"
    town = make_town(tmp_path, silos=3, rows=600, secure_aggregation=False, method=method)
    theta = np.full(10, 100.0)
    if purpose == "training":
        question: Any = Attack(theta, np.zeros(POINTS * 7))
        ask = ask_of(town, question)
    else:
        ask = ask_of(town, Evaluate(theta, audit=True), purpose="audit")
    with pytest.raises(Refusal, match="too steep"):
        asked(town, ask, {})
    set_line(town, "maximum_score = 1e9")
    reply = reply_to(ask.to_record(), str(town.settings("silo0")), {}, "1")
    assert "too steep" not in reply["refused"]


def test_the_refusal_depends_on_no_row(tmp_path: Path) -> None:
    """The same sentence over other rows, and where a silo has too few to answer anything."""
    told = set()
    for k, rows in enumerate((800, 80)):
        town = make_town(tmp_path / str(k), rows=rows, secure_aggregation=False, table={"seed": k})
        with pytest.raises(Refusal) as refused:
            asked(town, ask_of(town, round_at(town, theta=np.full(10, STEEP))), {})
        told.add(str(refused.value))
    assert len(told) == 1


def test_under_differential_privacy_clipping_does_this(tmp_path: Path) -> None:
    town = make_town(tmp_path, dp=Privacy(epsilon=4.0))
    ask = ask_of(town, Evaluate(np.full(10, STEEP), test_only=True))
    problem = town.agreed.problem(ask.scalings)
    check_scores(read_settings(town.settings("silo0")), town.agreed, problem, ask)
