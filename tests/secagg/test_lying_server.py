"""A server that tells different silos different survivor lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairsilo.secagg import ProtocolError, RepeatRound, SiloSession
from fairsilo.secagg.shamir import combine, weights_at_zero
from fairsilo.secagg.wire import unpack
from tests.secagg.federation import Federation, agreement, names

SILOS = names(5)  # t = 4
VICTIM = SILOS[4]


def collected(signed: bool) -> tuple[Federation, int]:
    federation = Federation(agreement(5, signed=signed))
    federation.set_up(1)
    return federation, federation.collect({name: np.ones(2) for name in SILOS})


def test_two_lists_never_give_both_secrets_of_a_silo() -> None:
    """However the server splits "survived" and "dropped", seed or key stays unknown."""
    for count in range(5):
        federation = Federation(agreement(5))
        federation.set_up(1)
        seed_and_key = federation.secrets(VICTIM)["0"]
        round_ = federation.collect({name: np.ones(2) for name in SILOS})
        shown: dict[bool, dict[str, bytes]] = {True: {}, False: {}}
        for number, name in enumerate(SILOS):
            dropped = number < count
            asked = SILOS[:4] if dropped else SILOS
            reply = federation.ask(name, SiloSession.reveal, round_, asked)
            shown[dropped][name] = unpack("reveal", reply).blobs("shares")[VICTIM]
        found = []
        for shares in shown.values():
            points = [federation.agreement.point[name] for name in shares]
            found.append(combine(weights_at_zero(points), list(shares.values())))
        assert (found[1] == seed_and_key[:32]) == (count <= 1)  # t = 4 seed shares
        assert (found[0] == seed_and_key[32:]) == (count >= 4)  # t = 4 key shares


@given(st.data())
def test_least_sum_of_a_lying_server_without_signed_lists(data: st.DataObject) -> None:
    """The documented bound: a sum is over at least n - floor(n (n - t) / t) silos.

    Each silo answers one list, which has t members and includes the silo. A sum over the silos
    whose seeds are known needs the mask keys of all others.
    """
    n = data.draw(st.integers(3, 7))
    t = data.draw(st.integers(max(3, n // 2 + 1), n))
    # Adversarial draw: where possible, all lists leave out members of one small set.
    wanted = data.draw(st.permutations(range(n)))
    left_out = []
    for silo in range(n):
        some = data.draw(st.integers(0, n - t))
        shift = data.draw(st.integers(0, n - 1))
        order = [other for other in wanted[shift:] + wanted[:shift] if other != silo]
        left_out.append(set(order[:some]))
    dropped = {u for u in range(n) if sum(u in out for out in left_out) >= t}
    survived = {u for u in range(n) if sum(u not in out for out in left_out) >= t}
    assert not dropped & survived
    if len(dropped | survived) == n:
        assert len(survived) >= n - n * (n - t) // t


def test_signed_lists_complete_a_round_in_three_exchanges() -> None:
    federation, round_ = collected(signed=True)
    survivors = federation.server.close_round()
    for name in survivors[:4]:  # one drops before it signs
        key = federation.keys[name]
        signature = federation.ask(name, SiloSession.confirm, round_, survivors, key)
        assert federation.server.add_confirmation(name, round_, signature)
    signatures = federation.server.confirmations()
    for name in survivors[:4]:
        reply = federation.ask(name, SiloSession.reveal, round_, survivors, signatures)
        federation.server.add_reveal(name, round_, reply)
    np.testing.assert_array_equal(federation.server.total(), [5.0, 5.0])


def test_a_silo_signs_one_list_and_reveals_for_no_other() -> None:
    federation, round_ = collected(signed=True)
    one, key = SILOS[0], federation.keys[SILOS[0]]
    with pytest.raises(ProtocolError, match="has not signed this survivor list"):
        federation.ask(one, SiloSession.reveal, round_, SILOS)
    federation.ask(one, SiloSession.confirm, round_, SILOS, key)
    with pytest.raises(ProtocolError, match="signed another list"):
        federation.ask(one, SiloSession.confirm, round_, SILOS[:4], key)
    with pytest.raises(ProtocolError, match="has not signed this survivor list"):
        federation.ask(one, SiloSession.reveal, round_, SILOS[:4])


def test_signatures_on_another_list_or_by_others_do_not_count() -> None:
    federation, round_ = collected(signed=True)
    told = {name: SILOS if number < 2 else SILOS[:4] for number, name in enumerate(SILOS[:4])}
    signatures = {
        name: federation.ask(name, SiloSession.confirm, round_, told[name], federation.keys[name])
        for name in SILOS[:4]
    }
    for name in SILOS[:4]:
        with pytest.raises(ProtocolError, match="Only 2 silos signed this survivor list"):
            federation.ask(name, SiloSession.reveal, round_, told[name], signatures)
    copied = dict.fromkeys(SILOS, signatures[SILOS[0]])
    with pytest.raises(ProtocolError, match="Only 1 silos signed"):
        federation.ask(SILOS[0], SiloSession.reveal, round_, SILOS, copied)


def test_too_few_signatures_repeat_the_round() -> None:
    federation, round_ = collected(signed=True)
    federation.server.close_round()
    assert not federation.server.add_confirmation(SILOS[0], round_ + 1, b"")
    with pytest.raises(RepeatRound, match="Only 0 silos signed"):
        federation.server.confirmations()


def test_a_share_that_is_not_the_share_is_noticed() -> None:
    """A silo lies about a share: the reconstructed seed misses its commitment."""
    federation, round_ = collected(signed=False)
    survivors = federation.server.close_round()
    for name in survivors:
        reply = federation.ask(name, SiloSession.reveal, round_, survivors)
        federation.server.add_reveal(name, round_, reply)
    assert federation.server._round is not None
    federation.server._round.reveals[SILOS[0]][VICTIM] = bytes(33)
    with pytest.raises(RepeatRound, match=f"shares of silo {VICTIM} in round 0 do not fit"):
        federation.server.total()


def test_different_rosters_give_no_sum() -> None:
    """The server withholds one silo's letters from another: masks do not cancel, an error."""
    federation = Federation(agreement(5))
    federation.set_up(1)
    round_ = federation.server.open_round(2)
    for name in SILOS:
        letters = federation.server.letters_for(name)
        if name == SILOS[0]:
            letters.pop(VICTIM)
        federation.ask(name, SiloSession.receive, letters)
        words = federation.ask(name, SiloSession.masked, round_, [1.0, 2.0])
        federation.server.add_masked(name, round_, words)
    survivors = federation.server.close_round()
    with pytest.raises(ProtocolError, match=f"names {VICTIM}, not in this set-up"):
        federation.ask(SILOS[0], SiloSession.reveal, round_, survivors)
    for name in SILOS[1:]:
        reply = federation.ask(name, SiloSession.reveal, round_, survivors)
        federation.server.add_reveal(name, round_, reply)
    with pytest.raises(RepeatRound, match="do not cancel"):
        federation.server.total()
