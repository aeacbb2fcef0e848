"""Silos vouch for silos: an owner confirms the others' keys, by a channel that is not the server.

A coordinator who writes the federation file could put keys of its own beside the names of others,
and then open what one silo masks for them. So each owner hears from every other silo, by telephone
for one, the words of its key, and confirms it once. What is confirmed lies in approvals.json:
by name, SHA-256 of the key.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from fairsilo.errors import FairSiloError
from fairsilo.network import approval
from fairsilo.network.federation_file import FederationFile
from fairsilo.network.ledger import locked
from fairsilo.network.member import Member
from fairsilo.network.settings import Settings
from fairsilo.network.wire import Refusal

CONSONANTS, VOWELS = "bdfghjklmnprstvz", "aiou"
WORDS = 8
"""Of 16 bits each: nobody makes a second key with the same 128 bits."""

OWN, CONFIRMED, UNKNOWN, CHANGED = (
    "this silo",
    "confirmed",
    "NOT confirmed",
    "ANOTHER KEY than the one confirmed",
)
"""How a member of the federation file stands with the owner."""


class Standing(NamedTuple):
    """A member, its key in words, and how it stands."""

    name: str
    words: str
    state: str
    role: str = "silo"


def words_of(public_key: str) -> str:
    """The fingerprint of a key as proquints, five-letter words that can be read out."""
    content = bytes.fromhex(digest_of(public_key))
    pairs = (int.from_bytes(content[i : i + 2], "big") for i in range(0, 2 * WORDS, 2))
    return " ".join(map(_proquint, pairs))


def _proquint(number: int) -> str:
    """Consonant, vowel, consonant, vowel, consonant: 4 + 2 + 4 + 2 + 4 bits."""
    letters = ""
    for shift, alphabet in ((12, 16), (10, 4), (6, 16), (4, 4), (0, 16)):
        letters += (CONSONANTS if alphabet == 16 else VOWELS)[(number >> shift) % alphabet]
    return letters


def digest_of(public_key: str) -> str:
    """SHA-256 of a key without its comment, as `ssh-keygen -l` takes it, in hexadecimal digits."""
    return hashlib.sha256(base64.b64decode(public_key.split()[1])).hexdigest()


def standings(settings: Settings, agreed: FederationFile) -> list[Standing]:
    """Every member of the federation file. A key that follows a confirmed one is confirmed: the
    file shows that each signed the next."""
    known = approval.read(settings)["members"]

    def state(member: Member) -> str:
        if member.name == settings.name:
            return OWN
        if member.name not in known:
            return UNKNOWN
        return CONFIRMED if known[member.name] in map(digest_of, member.keys) else CHANGED

    return [
        Standing(one.name, words_of(one.public_key), state(one), role)
        for role, members in (("silo", agreed.silos), ("witness", agreed.witnesses))
        for one in members
    ]


def unconfirmed(settings: Settings, agreed: FederationFile) -> list[Standing]:
    """The members that keep the silo from answering."""
    if settings.members == "any":
        return []
    return [one for one in standings(settings, agreed) if one.state in (UNKNOWN, CHANGED)]


def permit(settings: Settings, agreed: FederationFile) -> None:
    """Refuse while a member is unconfirmed, or has another key than the confirmed one."""
    found = unconfirmed(settings, agreed)
    if found:
        raise Refusal(sentence(found))


def sentence(found: Sequence[Standing]) -> str:
    """Why the silo does not answer, and what its owner does."""
    told = [
        f"{what} {', '.join(names)}"
        for state, what in (
            (UNKNOWN, "its owner has not confirmed"),
            (CHANGED, "another key than its owner confirmed is in the federation file for"),
        )
        if (names := [one.name for one in found if one.state == state])
    ]
    return (
        f"{'; '.join(told)} (compare the words of `fairsilo flower check` with them by telephone, "
        "then `fairsilo flower confirm` at the silo)"
    )


def confirm(
    settings: Settings, agreed: FederationFile, names: Sequence[str], yes: bool = True
) -> list[Standing]:
    """Write down that the keys of these members are theirs, or take it back; how they stand now."""
    keys = {one.name: one.public_key for one in agreed.parties}
    for name in names:
        if name not in keys:
            raise FairSiloError(
                f"the federation file has no silo {name!r}: it has {', '.join(keys)}"
            )
        if name == settings.name:
            raise FairSiloError(f"{name} is this silo itself: confirm the others")
    with locked(settings.approvals):
        kept = approval.read(settings)
        left = {name: key for name, key in kept["members"].items() if name not in names}
        new = {name: digest_of(keys[name]) for name in names if yes}
        approval.write_kept(settings, {**kept, "members": {**left, **new}})
    return [one for one in standings(settings, agreed) if one.name in names]


def confirm_all(settings: Settings, agreed: FederationFile) -> None:
    """Confirm everybody else, where one person owns all silos."""
    confirm(settings, agreed, [one.name for one in agreed.parties if one.name != settings.name])
