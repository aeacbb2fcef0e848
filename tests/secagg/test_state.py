"""Saved states: complete, versioned, without the secrets of rounds that are over."""

from __future__ import annotations

import base64
import copy
import json

import numpy as np
import pytest

from fairsilo.secagg import ProtocolError, RepeatRound, SiloSession
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
    """All that the server holds contains no secret of any silo, neither plain nor as text."""
    server = federation.server
    blobs = [letter for sent in server._letters.values() for letter in sent.values()]
    blobs += server._bundles.values()
    assert len(blobs) == 4 * 3 + 4
    for name in names(4):
        for pair in federation.secrets(name).values():
            for secret in (pair[:32], pair[32:]):
                text = base64.b64encode(secret)
                assert not any(secret in blob or text in blob for blob in blobs)


def test_repr_shows_no_secret(federation: Federation) -> None:
    session = SiloSession.from_bytes(federation.states[ONE])
    assert repr(session) == f"SiloSession(silo='{ONE}', run_id='run 1')"
    assert "b'" not in repr(session._material)


def test_a_server_resumed_from_an_older_state_learns_nothing(federation: Federation) -> None:
    saved = copy.deepcopy(federation.server)
    federation.collect({name: np.ones(2) for name in names(4)})
    federation.server = saved
    with pytest.raises(ProtocolError, match="used or passed"):
        federation.collect({name: np.ones(2) for name in names(4)})
    with pytest.raises(RepeatRound):
        federation.server.close_round()
    assert federation.server.open_round(2) == 1


def test_another_version_is_refused(federation: Federation) -> None:
    data = federation.states[ONE]
    whole = json.loads(data) | {"version": 2}
    with pytest.raises(ProtocolError, match="has format 2 and this version reads 1"):
        SiloSession.from_bytes(json.dumps(whole).encode())
    with pytest.raises(ProtocolError, match="not of the kind"):
        SiloSession.from_bytes(federation.agreement.to_bytes())


@pytest.mark.parametrize("damage", ["next", "silo", "agreement", "material"])
def test_a_damaged_state_is_refused(federation: Federation, damage: str) -> None:
    whole = json.loads(federation.states[ONE])
    whole["fields"][damage] = [1]
    with pytest.raises(ProtocolError, match=f"'{damage}'"):
        SiloSession.from_bytes(json.dumps(whole).encode())
