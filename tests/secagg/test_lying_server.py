"""A server that tells different silos different things."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairsilo.secagg import ProtocolError, RepeatRound, SiloSession, Transcript, silo, transcript
from fairsilo.secagg.masks import bound_to, self_mask
from fairsilo.secagg.ring import encode
from fairsilo.secagg.shamir import combine, weights_at_zero
from fairsilo.secagg.survivors import digest_of
from fairsilo.secagg.wire import pack, texts, unpack
from tests.secagg.federation import Federation, agreement, names

SILOS = names(5)  # t = 4
VICTIM = SILOS[4]


def collected() -> tuple[Federation, int]:
    federation = Federation(agreement(5))
    federation.set_up(1)
    return federation, federation.collect({name: np.ones(2) for name in SILOS})


@pytest.fixture
def unsigned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silos that take every list for signed."""
    monkeypatch.setattr(silo, "require_confirmations", lambda *given: None)


@pytest.mark.usefixtures("unsigned")
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
            federation.confirm(name, round_, asked)
            reply = federation.reveal(name, round_, asked, {})
            shown[dropped][name] = unpack("reveal", reply).blobs("shares")[VICTIM]
        found = []
        for shares in shown.values():
            points = [federation.agreement.point[name] for name in shares]
            found.append(combine(weights_at_zero(points), list(shares.values())))
        assert (found[1] == seed_and_key[:32]) == (count <= 1)  # t = 4 seed shares
        assert (found[0] == seed_and_key[32:]) == (count >= 4)  # t = 4 key shares


@pytest.mark.parametrize(("silos", "opened"), [(10, 6), (20, 12)])
@pytest.mark.parametrize("guarded", [False, True])
def test_a_list_of_its_own_for_each_silo(
    guarded: bool, silos: int, opened: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 10 silos (t = 7) lists that differ open a sum over 6, unless silos sign them first; of
    20 (t = 14) one over 12."""
    if not guarded:
        monkeypatch.setattr(silo, "require_confirmations", lambda *given: None)
    federation = Federation(agreement(silos))
    federation.set_up(1)
    everyone = names(silos)
    round_ = federation.collect({name: np.array([float(i)]) for i, name in enumerate(everyone)})
    wanted, others = everyone[:opened], everyone[opened:]
    # Every list has t silos, and each of the others is left out of t lists at least, not its own.
    more = len(others) - (silos - federation.agreement.t)
    places = {name: i * more if i < opened else i - opened for i, name in enumerate(everyone)}
    kept = {
        name: {others[(first + k) % len(others)] for k in range(more)}
        for name, first in places.items()
    }
    lists = {name: [v for v in everyone if v in {*wanted, *kept[name]}] for name in everyone}
    told = {name: federation.confirm(name, round_, lists[name]) for name in everyone}
    keys: dict[str, dict[str, bytes]] = {name: {} for name in others}
    seeds: dict[str, dict[str, bytes]] = {name: {} for name in wanted}
    for name in everyone:
        if guarded:
            with pytest.raises(ProtocolError, match="needs the signature of every silo in it"):
                federation.reveal(name, round_, lists[name], told)
            continue
        reply = federation.reveal(name, round_, lists[name], told)
        for owner, share in unpack("reveal", reply).blobs("shares").items():
            if owner in lists[name] and owner in seeds:
                seeds[owner][name] = share
            elif owner not in lists[name]:
                keys[owner][name] = share
    enough = [len(given) >= federation.agreement.t for given in (*keys.values(), *seeds.values())]
    assert all(enough) is not guarded
    assert any(enough) is not guarded


@pytest.mark.parametrize("guarded", [False, True])
def test_nothing_is_opened_of_a_silo_that_did_not_agree(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its vector is with the server, t others would show their shares; it refuses to sign."""
    federation, round_ = collected()
    survivors = list(federation.server.close_round())
    signatures = {name: federation.confirm(name, round_, survivors) for name in survivors[:4]}
    if guarded:
        for name in survivors[:4]:
            with pytest.raises(ProtocolError, match=f"Not signed by {VICTIM}"):
                federation.reveal(name, round_, survivors, signatures)
        return
    monkeypatch.setattr(silo, "require_confirmations", lambda *given: None)
    monkeypatch.setattr(transcript, "require_confirmations", lambda *given: None)
    for name in survivors[:4]:
        reply = federation.reveal(name, round_, survivors, signatures)
        federation.server.add_reveal(name, round_, reply)
    np.testing.assert_array_equal(federation.server.total(), [5.0, 5.0])


def test_four_show_the_shares_of_a_list_that_all_five_signed() -> None:
    federation, round_ = collected()
    np.testing.assert_array_equal(federation.unmask(round_, answer=SILOS[:4]), [5.0, 5.0])


def test_a_silo_signs_one_list_and_reveals_for_no_other() -> None:
    federation, round_ = collected()
    one = SILOS[0]
    with pytest.raises(ProtocolError, match="has not signed this survivor list"):
        federation.reveal(one, round_, SILOS, {})
    federation.confirm(one, round_, SILOS)
    with pytest.raises(ProtocolError, match="signed another list"):
        federation.confirm(one, round_, SILOS[:4])
    with pytest.raises(ProtocolError, match="has not signed this survivor list"):
        federation.reveal(one, round_, SILOS[:4], {})


def test_signatures_on_another_list_or_by_others_do_not_count() -> None:
    federation, round_ = collected()
    told = {name: SILOS if number < 2 else SILOS[:4] for number, name in enumerate(SILOS[:4])}
    signatures = {name: federation.confirm(name, round_, told[name]) for name in SILOS[:4]}
    for name in SILOS[:4]:
        with pytest.raises(ProtocolError, match="Not signed by"):
            federation.reveal(name, round_, told[name], signatures)
    copied = dict.fromkeys(SILOS, signatures[SILOS[0]])
    with pytest.raises(ProtocolError, match=f"Not signed by {', '.join(SILOS[1:])}"):
        federation.reveal(SILOS[0], round_, SILOS, copied)


def test_a_missing_signature_repeats_the_round() -> None:
    federation, round_ = collected()
    federation.server.close_round()
    assert not federation.server.add_confirmation(SILOS[0], round_ + 1, b"")
    for name in SILOS[:4]:
        signature = federation.confirm(name, round_, SILOS)
        assert federation.server.add_confirmation(name, round_, signature)
    with pytest.raises(RepeatRound, match=f"{VICTIM} did not sign"):
        federation.server.confirmations()


def test_a_share_that_is_not_the_share_is_noticed() -> None:
    """A silo lies about a share: the reconstructed seed misses its commitment."""
    federation, round_ = collected()
    federation.unmask(round_)
    made = federation.server.transcript
    assert made is not None
    shares = {**unpack("reveal", made.reveals[SILOS[0]]).blobs("shares"), VICTIM: bytes(33)}
    reply = pack("reveal", round=round_, survivors=SILOS, shares=texts(shares))
    lied = altered(made, reveals={**made.reveals, SILOS[0]: reply})
    with pytest.raises(RepeatRound, match=f"shares of silo {VICTIM} in round 0 do not fit"):
        lied.total(federation.agreement, b"")


def altered(made: Transcript, **changed: Any) -> Transcript:
    return Transcript(**{**vars(made), **changed})


def test_a_transcript_gives_the_sum_to_whoever_has_it_and_no_other() -> None:
    """What a witness is shown: neither an answer nor a list nor a key can be exchanged in it."""
    federation, round_ = collected()
    total = federation.unmask(round_)
    made = federation.server.transcript
    assert made is not None
    np.testing.assert_array_equal(made.total(federation.agreement, b""), total)
    other = made.vectors[VICTIM] + np.uint64(1)
    lies: list[dict[str, Any]] = [
        {"vectors": {**made.vectors, VICTIM: other}},
        {"vectors": {name: made.vectors[name] for name in SILOS[:4]}},
        {"vectors": {name: made.vectors[name] for name in SILOS[:3]}},
        {"confirmations": {}},
        {"number": round_ + 1},
    ]
    for changed in lies:
        with pytest.raises(ProtocolError):
            altered(made, **changed).total(federation.agreement, b"")
    with pytest.raises(RepeatRound, match="do not cancel"):
        made.total(federation.agreement, b"another question")
    assert digest_of(other) != digest_of(made.vectors[VICTIM])


@pytest.mark.parametrize("guarded", [False, True])
def test_an_accomplice_cannot_choose_its_answer_once_shares_are_shown(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sum without it is known then; with its digest signed, another answer fits no list."""
    if not guarded:
        # A list of names, without what they answered.
        for place in ("secagg.silo", "secagg.server", "secagg.transcript"):
            monkeypatch.setattr(f"fairsilo.{place}.digest_of", lambda words: bytes(32))
        monkeypatch.setattr("tests.secagg.federation.digest_of", lambda words: bytes(32))
    federation, round_ = collected()
    total = federation.unmask(round_)
    made = federation.server.transcript
    assert made is not None
    by = np.zeros_like(made.vectors[VICTIM])
    by[0] = 1 << 50
    late = altered(made, vectors={**made.vectors, VICTIM: made.vectors[VICTIM] + by})
    if not guarded:
        moved = late.total(federation.agreement, b"") - total
        assert moved[0] > 0
        assert moved[1] == 0
        return
    with pytest.raises(ProtocolError, match="Not signed by"):
        late.total(federation.agreement, b"")


@pytest.mark.parametrize(("count", "guarded"), [(5, False), (5, True), (20, False)])
def test_different_rosters_give_no_sum(
    count: int, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server withholds one silo's letters from another: masks do not cancel, an error."""
    federation, everyone = Federation(agreement(count)), names(count)
    victim = everyone[-1]
    federation.set_up(1)
    round_ = federation.server.open_round(2)
    for name in everyone:
        letters = federation.server.letters_for(name)
        if name == everyone[0]:
            letters.pop(victim)
        federation.ask(name, SiloSession.receive, letters)
        words = federation.ask(name, SiloSession.masked, round_, [1.0, 2.0])
        federation.server.add_masked(name, round_, words)
    survivors = list(federation.server.close_round())
    with pytest.raises(ProtocolError, match=f"names {victim}, not in this set-up"):
        federation.confirm(everyone[0], round_, survivors)
    if guarded:
        signed = {name: federation.confirm(name, round_, survivors) for name in everyone[1:]}
        with pytest.raises(ProtocolError, match=f"Not signed by {everyone[0]}"):
            federation.reveal(everyone[1], round_, survivors, signed)
        return
    # Nor would masks cancel, were its signature not needed.
    monkeypatch.setattr(silo, "require_confirmations", lambda *given: None)
    monkeypatch.setattr(transcript, "require_confirmations", lambda *given: None)
    for name in everyone[1:]:
        federation.confirm(name, round_, survivors)
        reply = federation.reveal(name, round_, survivors, {})
        federation.server.add_reveal(name, round_, reply)
    with pytest.raises(RepeatRound, match="do not cancel"):
        federation.server.total()


@pytest.mark.parametrize("count", [5, 20])
@pytest.mark.parametrize("guarded", [False, True])
def test_masks_cancel_only_among_silos_of_one_roster(
    guarded: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two silos are told nothing of each other, all others of both. Without their own masks,
    which shares would give, the answers of all open unless they are bound to the roster."""
    if not guarded:
        monkeypatch.setattr(silo, "bound_to", lambda context, *given: bound_to(context, b"", []))
    federation, everyone = Federation(agreement(count)), names(count)
    first, last = everyone[0], everyone[-1]
    federation.set_up(1)
    seeds = {name: federation.secrets(name)["0"][:32] for name in everyone}
    plain = [encode(np.full(2, float(number)), count) for number in range(count)]
    words = np.zeros(plain[0].size + 1, np.uint64)
    for number, name in enumerate(everyone):
        letters = federation.server.letters_for(name)
        letters.pop({first: last, last: first}.get(name, ""), None)
        federation.ask(name, SiloSession.receive, letters)
        words += federation.ask(name, SiloSession.masked, 0, np.full(2, float(number)))
        words -= self_mask(seeds[name], federation.agreement.context, 0, name, words.size)
    assert np.array_equal(words[:-1], np.sum(plain, axis=0, dtype=np.uint64)) is not guarded


@pytest.mark.parametrize("guarded", [False, True])
def test_old_keys_fed_to_a_silo_that_was_started_anew_open_nothing(guarded: bool) -> None:
    """Letters are sealed to the keys of both, and a silo that forgot its keys makes new ones."""
    federation = Federation(agreement(5))
    federation.set_up(2)
    before = federation.states[VICTIM]
    round_ = federation.collect({name: np.ones(2) for name in SILOS})
    federation.unmask(round_)
    old, letters = federation.server.bundles(), federation.server._letters
    given = {name: letters[name][VICTIM] for name in SILOS if name != VICTIM}
    if not guarded:
        # With the keys that it had it answers twice behind the same masks.
        made, federation.states[VICTIM] = federation.server.transcript, before
        assert made is not None
        federation.ask(VICTIM, SiloSession.receive, given)
        again = federation.ask(VICTIM, SiloSession.masked, round_, 3 * np.ones(2))
        apart = (again - made.vectors[VICTIM])[:4].tolist()
        assert apart == [1, 1, 0, 0], "3 less 1, in units of 2"
        return
    federation.states[VICTIM] = SiloSession(federation.agreement, VICTIM).to_bytes()
    first, last = federation.server._rounds
    fresh = federation.ask(VICTIM, SiloSession.advertise, first, last, federation.keys[VICTIM])
    federation.ask(VICTIM, SiloSession.share, {**old, VICTIM: fresh})
    with pytest.raises(ProtocolError):
        federation.ask(VICTIM, SiloSession.receive, given)
    with pytest.raises(ProtocolError, match="not yet received shares"):
        federation.ask(VICTIM, SiloSession.masked, first, np.ones(2))
