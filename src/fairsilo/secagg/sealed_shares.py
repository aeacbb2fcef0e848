"""Letters: encrypted Shamir shares from silo to silo, delivered by the server.

A letter holds, for every round of the set-up, the recipient's share of the sender's self-mask
seed and of its mask key. It is encrypted by ChaCha20-Poly1305 with a key that X25519 and HKDF
derive for this sender, recipient and pair of bundles. Each key encrypts one letter, so the nonce
may be zero. Decryption proves that the letter comes from the signer of the sender's bundle.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fairsilo.secagg.bundle import Bundle
from fairsilo.secagg.errors import ProtocolError
from fairsilo.secagg.masks import agree, derive
from fairsilo.secagg.shamir import SHARE_BYTES

Pair = tuple[bytes, bytes]
"""A share of a self-mask seed and one of a mask key."""


def write(context: bytes, private: bytes, sender: Bundle, to: Bundle, shares: list[Pair]) -> bytes:
    """The letter from `sender`, who owns `private`, with the shares in round order."""
    key = _key(context, agree(private, to.letter_key), sender, to)
    plain = b"".join(seed + mask for seed, mask in shares)
    return ChaCha20Poly1305(key).encrypt(bytes(12), plain, context)


def read(context: bytes, private: bytes, sender: Bundle, to: Bundle, letter: bytes) -> list[Pair]:
    """The shares in a letter to `to`, who owns `private`."""
    key = _key(context, agree(private, sender.letter_key), sender, to)
    try:
        plain = ChaCha20Poly1305(key).decrypt(bytes(12), bytes(letter), context)
    except InvalidTag as error:
        raise ProtocolError(
            f"The shares from silo {sender.silo} to {to.silo} were changed on the way, "
            "or belong to another set-up."
        ) from error
    step = 2 * SHARE_BYTES
    if len(plain) != step * (to.last - to.first + 1):
        raise ProtocolError(f"Silo {sender.silo} sent shares for a wrong number of rounds.")
    return [
        (plain[at : at + SHARE_BYTES], plain[at + SHARE_BYTES : at + step])
        for at in range(0, len(plain), step)
    ]


def _key(context: bytes, shared: bytes, sender: Bundle, to: Bundle) -> bytes:
    return derive(shared, "letter", context, sender.digest.hex(), to.digest.hex())
