"""What came of a question, as a witness is told: the messages that opened its sum, or who was lost.

One flat record, as all that travels; masked answers stay bytes.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fairsilo.errors import FairSiloError
from fairsilo.network.aggregate import Collected
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.journal import opened, sealed
from fairsilo.network.masked import agreement_of, from_bytes, to_bytes
from fairsilo.network.transport import Fault
from fairsilo.network.wire import Ask, Record, Refusal, pack_parcels, unpack_parcels
from fairsilo.secagg import SecureAggregationError, Transcript

OF = "account."
"""Before the names of its fields in a record."""
VECTOR = "vector "
"""Before a silo's name: its masked answer."""


def account(
    ask: Ask,
    run: str,
    collected: Collected,
    waited: dict[str, float],
    transcript: Transcript | None,
) -> Record:
    """For the wire; without a transcript the sum was not opened. `run`: in which silos answered."""
    lost = {name: fault.why for name, fault in collected.faults.items()}
    told: Record = {
        "number": ask.number,
        "run": run,
        "asked": packed(ask.to_record()),
        "about": json.dumps({"silos": collected.silos, "lost": lost, "waited": waited}),
        "opened": transcript is not None,
    }
    if transcript is not None:
        first, last = transcript.rounds
        told |= {"first": first, "last": last, "round": transcript.number}
        for name in ("bundles", "confirmations", "reveals"):
            told[name] = pack_parcels(getattr(transcript, name))
        told |= {VECTOR + name: to_bytes(words) for name, words in transcript.vectors.items()}
    return {OF + key: value for key, value in told.items()}


def asked_of(record: Record) -> Ask:
    """The question that an account is about, as it was asked."""
    try:
        return Ask.from_record(unpacked(record[f"{OF}asked"]))
    except Exception as error:
        raise Refusal(f"the question of an account cannot be read ({error})") from None


def packed(record: Record) -> bytes:
    """A record as one piece."""
    content = {key: one for key, one in record.items() if isinstance(one, bytes)}
    about = {key: one for key, one in record.items() if key not in content}
    return sealed(about, {key: np.frombuffer(one, np.uint8) for key, one in content.items()})


def unpacked(content: bytes) -> Record:
    """What `packed` wrote."""
    about, arrays = opened(content)
    return {**about, **{key: one.tobytes() for key, one in arrays.items()}}


def heard(
    agreed: FederationFile, ask: Ask, digest: bytes, record: Record
) -> tuple[Collected, dict[str, float]]:
    """The sum that an account proves, of answers to the question with this digest; else a refusal.

    `ask`: the question as it was asked; whether it follows is seen afterwards. In which run silos
    answered is the server's word: what they signed is the question, which names the training.
    """
    told = {key.removeprefix(OF): one for key, one in record.items() if key.startswith(OF)}
    try:
        about = json.loads(told["about"])
        lost = {str(name): Fault(str(why)) for name, why in about["lost"].items()}
        waited = {str(name): float(seconds) for name, seconds in about["waited"].items()}
        silos = {str(name) for name in about["silos"]}
        if not (silos | set(lost)) <= set(agreed.names) or silos & set(lost):
            raise ValueError("the silos do not fit the federation file")
        exact = ask.question.moving and agreed.dp is None
        if bool(told["opened"]) is (exact and bool(lost)):
            # Under the weights of all silos a sum over fewer is of no use, and nobody opens it.
            raise ValueError("a sum was opened, or not, where the rule is otherwise")
        vector = np.zeros(0)
        if told["opened"]:
            made = _transcript(told)
            vector = made.total(agreement_of(agreed, str(told["run"])), digest)
            if set(made.vectors) != silos:
                raise ValueError("the sum is over other silos than it says")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refusal(f"what came of question {ask.number} does not fit ({error})") from None
    except (SecureAggregationError, FairSiloError) as error:
        raise Refusal(f"what came of question {ask.number} does not fit: {error}") from None
    return Collected(vector, tuple(n for n in agreed.names if n in silos), lost), waited


def _transcript(told: dict[str, Any]) -> Transcript:
    return Transcript(
        rounds=(int(told["first"]), int(told["last"])),
        number=int(told["round"]),
        bundles=unpack_parcels(told["bundles"]),
        vectors={
            key.removeprefix(VECTOR): from_bytes(words)
            for key, words in told.items()
            if key.startswith(VECTOR)
        },
        confirmations=unpack_parcels(told["confirmations"]),
        reveals=unpack_parcels(told["reveals"]),
    )
