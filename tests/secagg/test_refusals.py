"""Requests that a silo refuses in a round."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec

import numpy as np
import pytest

from fairsilo.errors import FairSiloError
from fairsilo.secagg import ProtocolError, SiloSession
from fairsilo.secagg.wire import unpack
from tests.secagg.federation import Federation, agreement, names

ONE, FIVE = names(5)[0], names(5)[4]
P = ParamSpec("P")


@pytest.fixture
def federation() -> Federation:
    """Five silos, t = 4, three rounds set up."""
    made = Federation(agreement(5))
    made.set_up(3)
    return made


def sent(federation: Federation, silos: list[str]) -> int:
    return federation.collect({name: np.ones(3) for name in silos})


def refused(
    federation: Federation,
    why: str,
    question: Callable[Concatenate[SiloSession, P], object],
    *args: P.args,
    **kwargs: P.kwargs,
) -> None:
    with pytest.raises(ProtocolError, match=why):
        federation.ask(ONE, question, *args, **kwargs)


def test_a_second_survivor_list_in_a_round(federation: Federation) -> None:
    round_ = sent(federation, names(5))
    signed = federation.signed(round_, names(5))
    federation.reveal(ONE, round_, names(5), signed)
    for again in (names(5), names(4)):
        asked = federation.answers(again)
        refused(federation, "already answered", SiloSession.reveal, round_, asked, signed)
        key = federation.keys[ONE]
        refused(federation, "already answered", SiloSession.confirm, round_, asked, key)


def test_both_shares_of_a_silo(federation: Federation) -> None:
    """A reply has one share for each silo: of a survivor's seed or of a dropped silo's key."""
    round_ = sent(federation, names(5))
    held = federation.material(ONE)["shares"][str(round_)]
    signed = federation.signed(round_, names(4))
    reply = federation.reveal(ONE, round_, names(4), signed)
    shown = unpack("reveal", reply).blobs("shares")
    assert sorted(shown) == names(5)
    assert str(round_) not in federation.material(ONE)["shares"]
    wire = {name: Federation.pair(text) for name, text in held.items()}
    for name in names(4):
        assert shown[name] == wire[name][0] != wire[name][1]
    assert shown[FIVE] == wire[FIVE][1] != wire[FIVE][0]
    assert wire[ONE][1] == b""  # the share of its own mask key is not stored


def test_a_round_used_twice(federation: Federation) -> None:
    round_ = sent(federation, names(5))
    refused(federation, "used or passed", SiloSession.masked, round_, np.ones(3))
    federation.reveal(ONE, round_, names(5), federation.signed(round_, names(5)))
    refused(federation, "used or passed", SiloSession.masked, round_, np.ones(3))


def test_a_round_that_was_passed_over(federation: Federation) -> None:
    sent(federation, names(5)[1:])
    second = sent(federation, names(5))
    refused(federation, "used or passed", SiloSession.masked, second - 1, np.ones(3))
    asked = federation.answers(names(5))
    refused(federation, "later round", SiloSession.reveal, second - 1, asked, {})


def test_shares_of_an_earlier_round_after_a_later_one_was_opened(federation: Federation) -> None:
    first = sent(federation, names(5))
    sent(federation, names(5))
    asked = federation.answers(names(5))
    refused(federation, "a later round was opened", SiloSession.reveal, first, asked, {})


def test_a_new_set_up_ends_the_old_one(federation: Federation) -> None:
    round_ = sent(federation, names(5))
    key = federation.keys[ONE]
    federation.ask(ONE, SiloSession.advertise, 3, 5, key)
    asked = federation.answers(names(5))
    refused(federation, "shows no shares", SiloSession.reveal, round_, asked, {})
    refused(federation, "not yet received", SiloSession.masked, round_ + 1, np.ones(3))


@pytest.mark.parametrize(
    ("survivors", "why"),
    [
        (names(5)[1:], f"leaves out silo {ONE}"),
        (names(3), "has 3 silos and 4 are needed"),
        ([], "leaves out"),
        ([*names(4), "nobody"], "names nobody, not in this set-up"),
    ],
)
def test_survivor_lists_that_are_not_answered(
    federation: Federation, survivors: list[str], why: str
) -> None:
    round_ = sent(federation, names(5))
    asked = federation.answers(survivors)
    refused(federation, why, SiloSession.confirm, round_, asked, federation.keys[ONE])
    # A refused list has no effect.
    federation.reveal(ONE, round_, names(5), federation.signed(round_, names(5)))


def test_a_list_with_another_answer_than_the_silo_sent(federation: Federation) -> None:
    """Nobody can exchange an answer once the list is made, a silo's own or another's."""
    round_ = sent(federation, names(5))
    asked = {**federation.answers(names(5)), ONE: bytes(32)}
    key = federation.keys[ONE]
    refused(federation, "another answer of silo", SiloSession.confirm, round_, asked, key)
    signed = federation.signed(round_, names(5))
    other = {**federation.answers(names(5)), FIVE: bytes(32)}
    refused(federation, "has not signed", SiloSession.reveal, round_, other, signed)


def test_shares_by_a_silo_that_sent_nothing(federation: Federation) -> None:
    round_ = sent(federation, names(5)[1:])
    asked = federation.answers(names(5))
    refused(federation, "sent nothing in that", SiloSession.reveal, round_, asked, {})


def test_a_round_outside_the_set_up(federation: Federation) -> None:
    sent(federation, names(5))
    refused(federation, "not in the current set-up", SiloSession.masked, 3, np.ones(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**61])
def test_a_bad_number_is_refused_before_masking_and_the_round_stays(
    federation: Federation, bad: float
) -> None:
    federation.server.open_round(3)
    before = federation.states[ONE]
    with pytest.raises(FairSiloError, match="nothing was sent"):
        federation.masked(ONE, 0, [1.0, bad, 2.0])
    assert federation.saved(ONE)["open"] is None
    assert before != federation.states[ONE]  # the letters were received
    assert federation.masked(ONE, 0, [1.0, 0.0, 2.0]).shape == (7,)


def test_calls_before_their_time() -> None:
    federation = Federation(agreement(5))
    refused(federation, "begin a set-up", SiloSession.share, {})
    refused(federation, "begin a set-up", SiloSession.receive, {})
    refused(federation, "begin a set-up", SiloSession.masked, 0, [1.0])
    refused(federation, "begin a set-up", SiloSession.reveal, 0, {}, {})


def test_server_refuses_wrong_shapes_types_and_strangers(federation: Federation) -> None:
    round_ = federation.server.open_round(3)
    for wrong in (np.ones(7), np.ones(6, dtype=np.uint64), np.ones((1, 7), dtype=np.uint64)):
        with pytest.raises(ProtocolError, match="instead of 7 words"):
            federation.server.add_masked(ONE, round_, wrong)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match="no part in this set-up"):
        federation.server.add_masked("nobody", round_, np.ones(7, dtype=np.uint64))
    with pytest.raises(ProtocolError, match="no survivor list yet"):
        federation.server.total()


def test_server_refuses_shares_for_another_list(federation: Federation) -> None:
    round_ = sent(federation, names(5))
    federation.server.close_round()
    reply = federation.reveal(ONE, round_, names(4), federation.signed(round_, names(4)))
    with pytest.raises(ProtocolError, match="another survivor list"):
        federation.server.add_reveal(ONE, round_, reply)
