"""Masks cancel for any silos and drop-outs if t are left; below t nothing is revealed."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsilo.arrays import Floats
from fairsilo.secagg import ProtocolError, RepeatRound, SiloSession
from tests.secagg.federation import Federation, agreement, names

WILD = np.array([1e-4, -1.0, 7e17, 1e9, -3.3e15, 0.0, 123456789.0, 2.5e-5])


def vectors(silos: list[str], seed: int = 0) -> dict[str, Floats]:
    rng = np.random.default_rng(seed)
    return {silo: WILD * rng.uniform(0.1, 1.0, WILD.size) for silo in silos}


@st.composite
def patterns(draw: st.DrawFn) -> list[list[str]]:
    """Silos left after each step: all, advertised, shared, masked, revealed; at least t each."""
    count = draw(st.sampled_from([3, 4, 5, 6, 7, 8, 9, 20]))
    t = agreement(count).t
    left = [names(count)]
    for _ in range(4):
        size = draw(st.integers(t, len(left[-1])))
        left.append(sorted(draw(st.permutations(left[-1]))[:size]))
    return left


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(patterns(), st.integers(0, 2**32))
def test_masks_cancel_for_any_drop_out_pattern(left: list[list[str]], seed: int) -> None:
    everyone, advertised, shared, masked, revealed = left
    federation = Federation(agreement(len(everyone)))
    federation.set_up(2, advertised, shared)
    sent = vectors(masked, seed)
    total = federation.unmask(federation.collect(sent), revealed)
    np.testing.assert_allclose(total, sum(sent.values()), rtol=1e-9)
    # silos that dropped out of that round may take part in the next one
    again = vectors(shared, seed + 1)
    total = federation.unmask(federation.collect(again))
    np.testing.assert_allclose(total, sum(again.values()), rtol=1e-9)


@pytest.mark.parametrize("lost", names(4))
def test_of_four_silos_any_one_may_drop(lost: str) -> None:
    federation = Federation(agreement(4))
    federation.set_up()
    sent = vectors([name for name in names(4) if name != lost])
    total = federation.unmask(federation.collect(sent))
    np.testing.assert_allclose(total, sum(sent.values()), rtol=1e-9)


def test_below_t_each_step_says_repeat_and_a_new_round_works() -> None:
    federation = Federation(agreement(5))  # t = 4
    three, four = names(3), names(4)
    with pytest.raises(RepeatRound, match="Only 3 silos sent keys and 4 are needed"):
        federation.set_up(2, three)
    federation.set_up(3, letters=three)
    with pytest.raises(RepeatRound, match="Only 3 silos sent shares"):
        federation.server.open_round(8)
    federation.set_up(4)
    federation.collect(vectors(three))
    with pytest.raises(RepeatRound, match="Only 3 silos answered round"):
        federation.server.close_round()
    round_ = federation.collect(vectors(four))
    with pytest.raises(RepeatRound, match="Only 3 silos showed their shares"):
        federation.unmask(round_, three)
    sent = vectors(four, seed=5)
    total = federation.unmask(federation.collect(sent))
    np.testing.assert_allclose(total, sum(sent.values()), rtol=1e-9)


def test_a_late_vector_is_ignored_and_stays_masked() -> None:
    """Too late for the sum: the revealed shares are of its mask key, not of its seed."""
    federation = Federation(agreement(4))
    federation.set_up()
    sent = vectors(names(4))
    late = names(4)[3]
    round_ = federation.collect({name: sent[name] for name in names(3)})
    survivors = federation.server.close_round()
    words = federation.masked(late, round_, sent[late])
    assert not federation.server.add_masked(late, round_, words)
    total = federation.unmask(round_)
    np.testing.assert_allclose(total, sum(sent[name] for name in survivors), rtol=1e-9)
    assert not federation.server.add_masked(late, round_, words)
    sent = vectors(names(4), seed=1)
    total = federation.unmask(federation.collect(sent))
    np.testing.assert_allclose(total, sum(sent.values()), rtol=1e-9)


def test_messages_of_a_past_round_are_ignored() -> None:
    federation = Federation(agreement(4))
    federation.set_up(3)
    first = federation.collect(vectors(names(4)))
    survivors = list(federation.server.close_round())
    signed = federation.signed(first, survivors)
    reply = federation.reveal(names(4)[0], first, survivors, signed)
    second = federation.collect(vectors(names(4), seed=2))
    assert second == first + 1
    assert not federation.server.add_reveal(names(4)[0], first, reply)
    assert not federation.server.add_masked(names(4)[0], first, np.zeros(17, dtype=np.uint64))
    assert federation.unmask(second).shape == (8,)


def test_rounds_go_on_over_set_ups_with_growing_numbers() -> None:
    federation = Federation(agreement(3))
    seen: list[int] = []
    for _ in range(2):
        federation.set_up(2)
        while federation.server.rounds_left():
            sent = vectors(names(3), seed=len(seen))
            seen.append(federation.collect(sent))
            total = federation.unmask(seen[-1])
            np.testing.assert_allclose(total, sum(sent.values()), rtol=1e-9)
    assert seen == [0, 1, 2, 3]
    with pytest.raises(RepeatRound, match="used up"):
        federation.server.open_round(8)


def test_a_silo_joins_late_with_the_next_set_up() -> None:
    federation = Federation(agreement(4))
    federation.set_up(5, names(3))
    federation.unmask(federation.collect(vectors(names(3))))
    federation.set_up(5)
    sent = vectors(names(4))
    round_ = federation.collect(sent)
    assert round_ == 5
    np.testing.assert_allclose(federation.unmask(round_), sum(sent.values()), rtol=1e-9)


def test_every_set_of_survivors_of_five() -> None:
    federation = Federation(agreement(5))
    subsets = [s for k in (4, 5) for s in itertools.combinations(names(5), k)]
    federation.set_up(len(subsets))
    for subset in subsets:
        sent = vectors(list(subset))
        total = federation.unmask(federation.collect(sent))
        np.testing.assert_allclose(total, sum(sent.values()), rtol=1e-9)


def test_silos_that_disagree_give_no_sum() -> None:
    """A silo with another bound would change the sum silently; the check word detects it."""
    federation = Federation(agreement(3))
    federation.set_up(2)
    round_ = federation.server.open_round(1)
    for name, bound in zip(names(3), (2.0**60, 2.0**60, 2.0**40), strict=True):
        letters = federation.server.letters_for(name)
        federation.ask(name, SiloSession.receive, letters)
        words = federation.ask(name, SiloSession.masked, round_, [1.0], bound)
        federation.server.add_masked(name, round_, words)
    with pytest.raises(RepeatRound, match="do not cancel"):
        federation.unmask(round_)


def test_that_a_silo_had_no_vector_shows_in_the_sum_alone() -> None:
    federation = Federation(agreement(4))
    federation.set_up()
    round_ = federation.server.open_round(2)
    for number, name in enumerate(names(4)):
        federation.ask(name, SiloSession.receive, federation.server.letters_for(name))
        masked = partial(SiloSession.masked, vector=[1.0, 2.0], spoiled=number < 2)
        federation.server.add_masked(name, round_, federation.ask(name, masked, round_))
    with pytest.raises(ProtocolError, match=r"2 of the silos silo 00, .* had a number"):
        federation.unmask(round_)


@pytest.mark.parametrize("strange", [True, False])
def test_only_answers_to_one_question_can_be_opened_together(strange: bool) -> None:
    # Otherwise a server could ask one silo for its sums, and the others for known values.
    federation = Federation(agreement(4))
    federation.set_up()
    sent = vectors(names(4))
    round_ = federation.server.open_round(WILD.size, question=b"counts")
    for i, (name, vector) in enumerate(sent.items()):
        federation.ask(name, SiloSession.receive, federation.server.letters_for(name))
        question = b"gradient" if strange and i == 0 else b"counts"
        masked = partial(SiloSession.masked, vector=vector, question=question)
        words = federation.ask(name, masked, round_)
        assert federation.server.add_masked(name, round_, words)
    if strange:
        with pytest.raises(RepeatRound, match="did not agree on question"):
            federation.unmask(round_)
    else:
        np.testing.assert_allclose(federation.unmask(round_), sum(sent.values()), rtol=1e-9)
