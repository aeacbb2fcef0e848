"""Survivor lists: a silo's checks before it reveals a share, and its signature on the list.

In the optional third exchange every survivor signs (agreement, round, roster, list) with its node
key; no silo reveals before it has seen t such signatures on the list it received. If t > 2N/3, two
lists with t signatures each require more than N/3 silos that sign twice.
"""

from collections.abc import Mapping, Sequence

from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.keys import verified
from fairsilo.secagg.wire import pack, text_of


def checked(agreement: Agreement, silo: str, roster: list[str], asked: Sequence[str]) -> list[str]:
    """The survivor list, sorted; refused if `silo` must not answer it."""
    survivors = sorted(set(asked))
    if len(survivors) != len(asked):
        raise ProtocolError("The survivor list names a silo twice.")
    strangers = sorted(set(survivors) - set(roster))
    if strangers:
        raise ProtocolError(
            f"The survivor list names {', '.join(map(str, strangers))}, not in this set-up."
        )
    if silo not in survivors:
        raise ProtocolError(
            f"The survivor list leaves out silo {silo}, which was asked to answer it; "
            "it shows no shares."
        )
    if len(survivors) < agreement.t:
        raise ProtocolError(
            f"The survivor list has {len(survivors)} silos and {agreement.t} are needed; "
            "no shares are shown."
        )
    return survivors


def statement(agreement: Agreement, round_: int, roster: list[str], survivors: list[str]) -> bytes:
    """The bytes that are signed."""
    return pack(
        "survivors",
        context=text_of(agreement.context),
        round=round_,
        roster=roster,
        survivors=survivors,
    )


def require_confirmations(
    agreement: Agreement, said: bytes, survivors: list[str], signatures: Mapping[str, bytes]
) -> None:
    """Refuse unless t survivors signed the statement; forged signatures are not counted."""
    good = sum(
        verified(agreement.public_keys[silo], "survivors", said, bytes(signatures[silo]))
        for silo in survivors
        if silo in signatures
    )
    if good < agreement.t:
        raise ProtocolError(
            f"Only {good} silos signed this survivor list and {agreement.t} are needed; "
            "no shares are shown."
        )
