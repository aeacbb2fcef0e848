"""Keys and shares of a set-up are signed, bound to one run, and cannot be replaced."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairsilo.errors import FairSiloError
from fairsilo.secagg import ProtocolError, SiloSession
from fairsilo.secagg.bundle import opened, seal
from tests.secagg.federation import Federation, agreement, names, node_key

ONE, TWO, THREE, FOUR = names(4)
ROUNDS = (0, 1)


def bundles(federation: Federation, first: int = 0, last: int = 1) -> dict[str, bytes]:
    return {
        name: federation.ask(name, SiloSession.advertise, first, last, federation.keys[name])
        for name in federation.names
    }


@pytest.fixture
def federation() -> Federation:
    return Federation(agreement(4))


def test_a_forged_signature(federation: Federation) -> None:
    """The server makes keys for silo 2 and signs them with its own key."""
    sent = bundles(federation)
    public = (bytes(range(32)), bytes(range(64)), bytes(64))
    sent[TWO] = seal(federation.agreement, (TWO, 0, 1), public, node_key(99))
    with pytest.raises(ProtocolError, match=f"keys of silo {TWO} are not signed by its key"):
        federation.ask(ONE, SiloSession.share, sent)
    federation.server.begin_setup(2)
    with pytest.raises(ProtocolError, match="not signed"):
        federation.server.add_bundle(TWO, sent[TWO])


def test_a_silo_that_signs_for_another(federation: Federation) -> None:
    sent = bundles(federation)
    sent[TWO] = sent[THREE]
    with pytest.raises(ProtocolError, match="not signed"):
        federation.ask(ONE, SiloSession.share, sent)


def test_a_name_that_is_not_the_signers(federation: Federation) -> None:
    """Signed by the right key, but in the name of another silo."""
    sent = bundles(federation)
    public = (bytes(range(32)), bytes(range(64)), bytes(64))
    sent[TWO] = seal(federation.agreement, (THREE, 0, 1), public, federation.keys[TWO])
    with pytest.raises(ProtocolError, match="belong to another silo"):
        federation.ask(ONE, SiloSession.share, sent)


def test_two_silos_with_the_same_key(federation: Federation) -> None:
    sent = bundles(federation)
    theirs = opened(federation.agreement, THREE, ROUNDS, sent[THREE])
    public = (bytes(range(32)), theirs.mask_key(1) + bytes(range(32, 64)), bytes(64))
    sent[TWO] = seal(federation.agreement, (TWO, 0, 1), public, federation.keys[TWO])
    with pytest.raises(ProtocolError, match="Two silos sent the same keys"):
        federation.ask(ONE, SiloSession.share, sent)


def test_keys_replayed_from_another_run(federation: Federation) -> None:
    other = Federation(agreement(4, run_id="run 0"))
    sent = bundles(federation) | {TWO: bundles(other)[TWO]}
    with pytest.raises(ProtocolError, match="belong to another run \\('run 0' instead of 'run 1'"):
        federation.ask(ONE, SiloSession.share, sent)


def test_keys_replayed_from_another_range_of_rounds(federation: Federation) -> None:
    old = bundles(federation)
    sent = bundles(federation, 2, 3) | {TWO: old[TWO]}
    with pytest.raises(ProtocolError, match="another range of rounds"):
        federation.ask(ONE, SiloSession.share, sent)


def test_a_silo_with_another_threshold(federation: Federation) -> None:
    other = Federation(agreement(4, threshold=4))
    sent = bundles(federation) | {TWO: bundles(other)[TWO]}
    with pytest.raises(ProtocolError, match="belong to another agreement"):
        federation.ask(ONE, SiloSession.share, sent)


def test_any_changed_byte_is_noticed(federation: Federation) -> None:
    message = bundles(federation)[ONE]
    assert opened(federation.agreement, ONE, ROUNDS, message).silo == ONE

    @settings(max_examples=100)
    @given(st.integers(0, len(message) - 1), st.integers(1, 255))
    def changed(at: int, by: int) -> None:
        bad = bytes([*message[:at], message[at] ^ by, *message[at + 1 :]])
        with pytest.raises(ProtocolError):
            opened(federation.agreement, ONE, ROUNDS, bad)

    changed()


def test_own_keys_exchanged_or_left_out(federation: Federation) -> None:
    sent = bundles(federation)
    other = bundles(Federation(agreement(4)))
    for wrong in (sent | {ONE: other[ONE]}, {k: v for k, v in sent.items() if k != ONE}):
        with pytest.raises(ProtocolError, match="not its own"):
            federation.ask(ONE, SiloSession.share, wrong)


def test_too_few_keys_and_too_few_letters(federation: Federation) -> None:
    sent = bundles(federation)
    with pytest.raises(ProtocolError, match="Only 2 silos sent keys and 3 are needed"):
        federation.ask(ONE, SiloSession.share, {name: sent[name] for name in (ONE, TWO)})
    letter = federation.ask(TWO, SiloSession.share, sent)[ONE]
    federation.ask(ONE, SiloSession.share, sent)
    with pytest.raises(ProtocolError, match="Only 2 silos sent shares and 3 are needed"):
        federation.ask(ONE, SiloSession.receive, {TWO: letter})


def test_shares_are_given_once_and_received_once(federation: Federation) -> None:
    sent = bundles(federation)
    with pytest.raises(ProtocolError, match="not yet shared"):
        federation.ask(ONE, SiloSession.receive, {TWO: b""})
    letters = {name: federation.ask(name, SiloSession.share, sent) for name in names(4)}
    with pytest.raises(ProtocolError, match="already shared"):
        federation.ask(ONE, SiloSession.share, sent)
    mine = {name: letters[name][ONE] for name in (TWO, THREE, FOUR)}
    federation.ask(ONE, SiloSession.receive, mine)
    held = federation.saved(ONE)
    for again in (mine, {}):
        federation.ask(ONE, SiloSession.receive, again)
        assert federation.saved(ONE) == held
    with pytest.raises(ProtocolError, match="already received"):
        federation.ask(ONE, SiloSession.receive, {name: mine[name] for name in (TWO, THREE)})


def test_letters_changed_misrouted_or_from_strangers(federation: Federation) -> None:
    sent = bundles(federation)
    letters = {name: federation.ask(name, SiloSession.share, sent) for name in names(4)}
    mine = {name: letters[name][ONE] for name in (TWO, THREE, FOUR)}
    flipped = bytes([mine[TWO][0] ^ 1]) + mine[TWO][1:]
    for wrong in (flipped, letters[TWO][THREE], letters[THREE][ONE], letters[ONE][TWO], b""):
        with pytest.raises(ProtocolError, match="changed on the way"):
            federation.ask(ONE, SiloSession.receive, mine | {TWO: wrong})
    for stranger in (ONE, "nobody"):
        with pytest.raises(ProtocolError, match="sent no keys"):
            federation.ask(ONE, SiloSession.receive, mine | {stranger: b""})
    federation.ask(ONE, SiloSession.receive, mine)  # refused letters change nothing


def test_rounds_of_keys_only_grow(federation: Federation) -> None:
    bundles(federation, 0, 4)
    key = federation.keys[ONE]
    for first in (0, 4):
        with pytest.raises(ProtocolError, match="already made keys up to round 4"):
            federation.ask(ONE, SiloSession.advertise, first, 9, key)
    for first, last in ((6, 5), (5, 5000)):
        with pytest.raises(ProtocolError, match="covers 1 to 1000 rounds"):
            federation.ask(ONE, SiloSession.advertise, first, last, key)


def test_the_node_key_is_the_registered_one(federation: Federation) -> None:
    with pytest.raises(ProtocolError, match="not the one in the federation file"):
        federation.ask(ONE, SiloSession.advertise, 0, 1, node_key(1))
    with pytest.raises(ProtocolError, match="no silo 'nobody'"):
        SiloSession(federation.agreement, "nobody")


def test_every_key_of_every_round_is_fresh(federation: Federation) -> None:
    seen: set[bytes] = set()
    for first in (0, 10):
        for name, message in bundles(federation, first, first + 9).items():
            bundle = opened(federation.agreement, name, (first, first + 9), message)
            keys = [bundle.letter_key]
            for round_ in range(first, first + 10):
                keys += [bundle.mask_key(round_), bundle.commitment(round_)]
            assert not seen & set(keys)
            seen |= set(keys)
    assert len(seen) == 2 * 4 * 21


@given(st.binary(max_size=200))
def test_garbage_is_refused_in_one_sentence(noise: bytes) -> None:
    federation = Federation(agreement(4))
    with pytest.raises(FairSiloError):
        opened(federation.agreement, ONE, ROUNDS, noise)
    with pytest.raises(FairSiloError):
        SiloSession.from_bytes(noise)
