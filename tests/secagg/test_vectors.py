"""The code agrees with the test vectors, which another program wrote from docs/protocol.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from fairsilo.network.chain import short
from fairsilo.network.masked import from_bytes, point_of, to_bytes
from fairsilo.network.signed import require_signatures
from fairsilo.network.silo import _training
from fairsilo.network.vouch import words_of
from fairsilo.network.wire import Ask, Record, Refusal, pack_parcels
from fairsilo.secagg import Agreement, SiloSession, Transcript, masks, material, ring, shamir
from fairsilo.secagg.bundle import opened
from fairsilo.secagg.survivors import digest_of, statement
from tests.secagg.make_vectors import FILE, written

VECTORS: dict[str, Any] = json.loads(FILE.read_text())
SET_UP, ROUND, ASKED = VECTORS["set_up"]["silos"], VECTORS["round"], VECTORS["question"]
NAMES, NUMBER = ROUND["roster"], ROUND["number"]
RANGE = (VECTORS["set_up"]["first"], VECTORS["set_up"]["last"])
QUESTION = bytes.fromhex(ASKED["digest"])


@pytest.fixture(scope="module")
def agreement() -> Agreement:
    told = VECTORS["agreement"]
    return Agreement(told["fingerprint"], told["run_id"], told["silos"], told["threshold"])


def node_key(name: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int(VECTORS["node_keys"][name], 16), ec.SECP384R1())


def in_bytes(of: dict[str, str]) -> dict[str, bytes]:
    return {name: bytes.fromhex(one) for name, one in of.items()}


def bundles() -> dict[str, bytes]:
    """The signed messages: length, payload, signature."""
    found = {}
    for name, own in SET_UP.items():
        payload, signature = own["bundle"].encode(), bytes.fromhex(own["bundle_signature"])
        found[name] = len(payload).to_bytes(4, "big") + payload + signature
    return found


def record() -> Record:
    told = ASKED["record"].items()
    return {k: bytes.fromhex(v["hex"]) if isinstance(v, dict) else v for k, v in told}


def transcript() -> Transcript:
    survivors = ROUND["survivors"]
    sent = in_bytes({name: ROUND["masked"][name] for name in survivors})
    return Transcript(
        RANGE,
        NUMBER,
        bundles(),
        {name: from_bytes(one) for name, one in sent.items()},
        in_bytes(ROUND["confirmations"]),
        {name: one.encode() for name, one in ROUND["reveals"].items()},
    )


def test_the_file_is_what_its_program_writes() -> None:
    assert FILE.read_text() == written()


def test_the_agreement(agreement: Agreement) -> None:
    assert agreement.context.hex() == VECTORS["agreement"]["context"]
    assert agreement.point == {name: k for k, name in enumerate(NAMES, start=1)}


def drawn(name: str) -> tuple[Iterator[bytes], Iterator[int]]:
    """What a silo of the vectors draws at random: secrets, then coefficients, highest first."""
    own = SET_UP[name]
    pairs = zip(own["seeds"], own["mask_keys"], strict=True)
    secrets = [bytes.fromhex(one) for pair in pairs for one in pair]
    secrets.append(bytes.fromhex(own["letter_key"]))
    falling = [int(c, 16) for both in own["coefficients"] for one in both for c in one[::-1]]
    return iter(secrets), iter(falling)


def test_a_silo_sends_these_bytes_from_its_keys_to_its_shares(
    agreement: Agreement, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = {}
    for name in NAMES:
        secrets, falling = drawn(name)
        monkeypatch.setattr(material, "new_secret", lambda drawn=secrets: next(drawn))
        source = SimpleNamespace(randbelow=lambda below, drawn=falling: next(drawn))
        monkeypatch.setattr(shamir, "secrets", source)
        sessions[name] = session = SiloSession(agreement, name)
        made = session.advertise(*RANGE, node_key(name))
        payload = SET_UP[name]["bundle"].encode()
        assert made[: 4 + len(payload)] == bundles()[name][: 4 + len(payload)]
        # The signature has a nonce of its own: both are good, and the stored one goes on.
        opened(agreement, name, RANGE, made)
        session._current().bundles = {name: bundles()[name]}
        assert session.share(bundles()) == in_bytes(SET_UP[name]["letters"])
    for name, session in sessions.items():
        letters = {by: SET_UP[by]["letters"][name] for by in NAMES if by != name}
        session.receive(in_bytes(letters))
        words = session.masked(NUMBER, ROUND["vectors"][name], question=QUESTION)
        assert to_bytes(words).hex() == ROUND["masked"][name]
    answers = {name: digest_of(one) for name, one in transcript().vectors.items()}
    for name in ROUND["survivors"]:
        sessions[name].confirm(NUMBER, answers, node_key(name))
        shares = sessions[name].reveal(NUMBER, answers, in_bytes(ROUND["confirmations"]))
        assert shares.decode() == ROUND["reveals"][name]


def test_numbers_and_what_hides_them(agreement: Agreement) -> None:
    for name in NAMES:
        words = ring.encode(ROUND["vectors"][name], len(NAMES))
        assert [f"{word:016x}" for word in words] == ROUND["encoded"][name]
    common = masks.bound_to(agreement.context, QUESTION, NAMES)
    assert common.hex() == ROUND["common"]
    scale = ring.exponents(ring.DEFAULT_BOUND, len(NAMES), 4).astype("<i8").tobytes()
    (word,) = masks.check_word(common, NUMBER, NAMES, scale)
    assert f"{word:016x}" == ROUND["check_word"]


def test_the_survivor_list_and_the_sum(agreement: Agreement) -> None:
    """As a witness adds it up: signatures, shares and check word are verified on the way."""
    made = transcript()
    answers = {name: digest_of(one) for name, one in made.vectors.items()}
    said = statement(agreement, NUMBER, NAMES, answers)
    assert said.decode() == ROUND["statement"]
    total = made.total(agreement, QUESTION)
    np.testing.assert_allclose(total, ROUND["sum"], rtol=1e-15)
    # Whole numbers and halves have no rounding at all.
    assert total[3] == sum(ROUND["vectors"][name][3] for name in ROUND["survivors"])
    words = np.array([int(word, 16) for word in ROUND["sum_words"]], np.uint64)
    np.testing.assert_array_equal(ring.decode(words, len(NAMES)), total)


def test_a_question_and_its_witness() -> None:
    ask = Ask.from_record(record())
    assert ask.to_record() == record()
    assert ask.digest() == QUESTION
    witness = SimpleNamespace(name="witness", public_key=ASKED["witness"])
    agreed: Any = SimpleNamespace(witnesses=(witness,), signers=1)
    parcels = pack_parcels({"witness": bytes.fromhex(ASKED["signature"])})
    signed = Ask.from_record({**record(), "signatures": parcels})
    assert signed.digest() == QUESTION, "who signed is no part of what is signed"
    require_signatures(agreed, signed)
    other = Ask.from_record({**record(), "number": 5, "signatures": parcels})
    with pytest.raises(Refusal, match="0 witnesses signed"):
        require_signatures(agreed, other)


def test_by_what_a_ledger_knows_keys_points_and_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    told, lines = VECTORS["digests"], VECTORS["agreement"]["silos"]
    assert {name: short(line) for name, line in lines.items()} == told["key"]
    assert {name: words_of(line) for name, line in lines.items()} == told["words"]
    ask = Ask.from_record(record())
    silo: Any = SimpleNamespace(name="bank")
    assert _training(silo, ask) == told["training"]
    nothing: Any = None
    monkeypatch.setattr("fairsilo.network.masked.start_of", lambda agreed, ask: np.zeros(3))
    assert point_of(nothing, ask) == told["point"]
