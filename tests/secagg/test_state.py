"""Saved states: complete, versioned, without the secrets of rounds that are over."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest

from fairsilo.secagg import ProtocolError, RepeatRound, ServerSession, SiloSession
from tests.secagg.federation import Federation, agreement, names

ONE = names(4)[0]


@pytest.fixture
def federation() -> Federation:
    made = Federation(agreement(4))
    made.set_up(3)
    return made


def test_a_saved_session_is_the_session(federation: Federation) -> None:
    federation.collect({name: np.ones(2) for name in names(4)})
    for name in names(4):
        assert SiloSession.from_bytes(federation.states[name]).to_bytes() == federation.states[name]
    saved = federation.server.to_bytes()
    assert ServerSession.from_bytes(saved).to_bytes() == saved


def test_secrets_of_a_used_round_are_gone(federation: Federation) -> None:
    before = federation.secrets(ONE)
    assert sorted(before) == ["0", "1", "2"]
    federation.server.open_round(2)
    round_ = federation.collect({name: np.ones(2) for name in names(4)})
    assert round_ == 1  # round 0 was skipped: its secrets are dropped, too
    assert sorted(federation.secrets(ONE)) == ["2"]
    held = federation.material(ONE)["shares"]
    assert sorted(held) == ["1", "2"]
    federation.unmask(round_)
    held = federation.material(ONE)["shares"]
    assert sorted(held) == ["2"]
    state = federation.states[ONE].decode()
    for pair in (before["0"], before["1"]):
        for secret in (pair[:32], pair[32:]):
            assert base64.b64encode(secret)[:40].decode() not in state


def test_letter_keys_are_gone_once_the_letters_are_read(federation: Federation) -> None:
    assert federation.material(ONE)["letter_key"]
    federation.ask(ONE, SiloSession.receive, federation.server.letters_for(ONE))
    assert federation.material(ONE)["letter_key"] is None


def test_nothing_secret_reaches_the_server(federation: Federation) -> None:
    """The server's whole state, with letters decoded, contains no secret of any silo."""
    state = json.loads(federation.server.to_bytes())["fields"]
    blobs = [base64.b64decode(t) for sent in state["letters"].values() for t in sent.values()]
    blobs.append(federation.server.to_bytes())
    for name in names(4):
        for pair in federation.secrets(name).values():
            for secret in (pair[:32], pair[32:]):
                assert not any(secret in blob for blob in blobs)
                assert (
                    base64.b64encode(secret).decode() not in federation.server.to_bytes().decode()
                )


def test_repr_shows_no_secret(federation: Federation) -> None:
    session = SiloSession.from_bytes(federation.states[ONE])
    assert repr(session) == f"SiloSession(silo='{ONE}', run_id='run 1')"
    assert "b'" not in repr(session._material)


def test_a_resumed_server_opens_a_new_round(federation: Federation) -> None:
    """Killed after some vectors arrived: that round's material is never used again."""
    first = federation.collect({name: np.ones(2) for name in names(4)})
    federation.restart()
    with pytest.raises(ProtocolError, match="No round is open"):
        federation.server.close_round()
    second = federation.collect({name: np.full(2, 2.0) for name in names(4)})
    assert second == first + 1
    np.testing.assert_array_equal(federation.unmask(second), [8.0, 8.0])


def test_a_server_resumed_from_an_older_state_learns_nothing(federation: Federation) -> None:
    saved = federation.server.to_bytes()
    federation.collect({name: np.ones(2) for name in names(4)})
    federation.server = ServerSession.from_bytes(saved)
    with pytest.raises(ProtocolError, match="used or passed"):
        federation.collect({name: np.ones(2) for name in names(4)})
    with pytest.raises(RepeatRound):
        federation.server.close_round()
    assert federation.server.open_round(2) == 1


@pytest.mark.parametrize("kind", [SiloSession, ServerSession])
def test_another_version_is_refused(
    federation: Federation, kind: type[SiloSession] | type[ServerSession]
) -> None:
    data = federation.states[ONE] if kind is SiloSession else federation.server.to_bytes()
    whole = json.loads(data) | {"version": 2}
    with pytest.raises(ProtocolError, match="has format 2 and this version reads 1"):
        kind.from_bytes(json.dumps(whole).encode())
    other = federation.server.to_bytes() if kind is SiloSession else federation.states[ONE]
    with pytest.raises(ProtocolError, match="not of the kind"):
        kind.from_bytes(other)


@pytest.mark.parametrize("damage", ["next", "silo", "agreement", "material"])
def test_a_damaged_state_is_refused(federation: Federation, damage: str) -> None:
    whole = json.loads(federation.states[ONE])
    whole["fields"][damage] = [1]
    with pytest.raises(ProtocolError, match=f"'{damage}'"):
        SiloSession.from_bytes(json.dumps(whole).encode())
