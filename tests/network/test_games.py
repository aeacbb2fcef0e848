"""However the server lies: no silo with a witness answers what the honest server would not have
asked, and without a witness no guard is passed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, seed, settings

from fairsilo.network.masked import opens_counts
from tests.network.games import LIES, Lie, LyingPost, clean, lies, play
from tests.network.silos import Town, make_town
from tests.secagg.exposed import exposed

GAMES = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
MORE = settings(GAMES, max_examples=250, derandomize=False, database=None)
Play = Callable[[list[Lie]], LyingPost]


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, tuple[Town, Play]]]:
    """Four silos, with a witness and without; every training has the same name."""
    folder = tmp_path_factory.mktemp("games")
    made: dict[int, tuple[Town, Play]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairsilo.network.journal.secrets.token_hex", lambda size: "00" * size)
        # Fewer keys are made ahead, and nobody pulls the plug: half of the time went to the disk.
        patch.setattr("fairsilo.network.secure.AHEAD", 8)
        patch.setattr("os.fsync", lambda descriptor: None)
        for watched in (0, 1):
            town = make_town(folder / f"town{watched}", rows=600, watched=watched, rounds=2)

            def game(told: list[Lie], town: Town = town) -> LyingPost:
                return play(town, told, folder / "journal")

            made[watched] = town, game
        yield made


@pytest.fixture(scope="module")
def honest(towns: dict[int, tuple[Town, Play]]) -> set[bytes]:
    """What the honest server asks: of all silos, or of those that were there from the start."""
    town, game = towns[1]
    asked = {ask.digest() for _, ask in game([]).answered}
    assert len(asked) == 5
    for who in range(len(town.agreed.names)):
        # A silo that is lost at the first question, before anything was opened.
        asked |= {ask.digest() for _, ask in game([("lost", n, who) for n in (4, 5)]).answered}
    return asked


@pytest.mark.slow
@GAMES
@given(told=lies)
def test_with_a_witness(
    told: list[Lie], towns: dict[int, tuple[Town, Play]], honest: set[bytes]
) -> None:
    town, game = towns[1]
    post = game(told)
    for name, ask in post.answered:
        assert ask.digest() in honest, f"{name} answered {ask.kind} {ask.number} after {told}"
    unguarded(town, post)


@pytest.mark.slow
@GAMES
@given(told=lies)
def test_without_a_witness(told: list[Lie], towns: dict[int, tuple[Town, Play]]) -> None:
    town, game = towns[0]
    unguarded(town, game(told))


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("watched", [0, 1])
def test_thousands_of_games(
    part: int, watched: int, towns: dict[int, tuple[Town, Play]], honest: set[bytes]
) -> None:
    """5,000 in all, half of them with a witness; a part takes a minute of CPU time."""
    town, game = towns[watched]

    @seed(part)
    @MORE
    @given(told=lies)
    def games(told: list[Lie]) -> None:
        post = game(told)
        assert not watched or all(ask.digest() in honest for _, ask in post.answered), told
        unguarded(town, post)

    games()


def unguarded(town: Town, post: LyingPost) -> None:
    """What guards promise of what silos opened, whatever was asked."""
    for name in town.agreed.names:
        own = [(ask, whom) for silo, ask, whom in post.opened if silo == name]
        assert all(len(whom) >= 3 and name in whom for _, whom in own)
        counted = {whom for ask, whom in own if opens_counts(ask.question)}
        for ask, whom in own:
            assert not ask.question.moving or whom in counted
    sets = {whom for _, ask, whom in post.opened if opens_counts(ask.question)}
    assert not exposed(list(sets)), "some sums together are one silo's counts"


NOTICED = {
    "survivors": 4, "exchanged": 4, "roster": 3, "keys": 2, "replay": 6, "round": 6, "lost": 9,
    "one-theta": 12, "theta": 12, "totals": 12, "order": 12, "kind": 12, "resume": 10,
}  # fmt: skip
"""At which exchange a lie shows even without a witness: masks do not cancel, or a silo refuses."""


@pytest.mark.slow
def test_lies_reach_the_silos_and_change_what_they_do(
    towns: dict[int, tuple[Town, Play]],
) -> None:
    """Otherwise the games would be worth nothing."""
    town, game = towns[0]
    plain = game([])
    assert (len(plain.answered), len(plain.opened)) == (20, 20)
    for what, when in NOTICED.items():
        post = game([(what, when, 0)])
        assert (len(post.answered), len(post.opened)) != (20, 20), what
    assert set(NOTICED) <= set(LIES)
    clean(town)
