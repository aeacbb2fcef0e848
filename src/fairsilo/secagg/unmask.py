"""The server's arithmetic: remove the masks left in the sum of the survivors' vectors.

    sum_{u survived} x_u = sum y_u - sum_u PRG(b_u) - sum_u sum_{v dropped} (mask u added for v)

b_u comes from t shares of u's seed, the last term from t shares of v's mask key.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from fairsilo.arrays import Floats
from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.bundle import Bundle
from fairsilo.secagg.errors import ProtocolError, RepeatRound
from fairsilo.secagg.masks import (
    bound_to,
    check_word,
    commitment,
    pair_mask,
    public_of,
    self_mask,
)
from fairsilo.secagg.ring import Words, decode, exponents
from fairsilo.secagg.shamir import SHARE_BYTES, combine, weights_at_zero
from fairsilo.secagg.wire import unpack

Shares = dict[str, bytes]


def read_reveal(round_: int, roster: list[str], survivors: list[str], reply: bytes) -> Shares:
    """The shares in a silo's reply, one for each silo of the roster."""
    fields = unpack("reveal", reply)
    if fields.number("round") != round_ or fields.names("survivors") != survivors:
        raise ProtocolError("Shares were shown for another round or another survivor list.")
    shares = fields.blobs("shares", SHARE_BYTES)
    if sorted(shares) != roster:
        raise ProtocolError("Shares were shown for other silos than those of this round.")
    return shares


def opened_sum(
    agreement: Agreement,
    round_: int,
    question: bytes,
    bound: ArrayLike,
    bundles: Mapping[str, Bundle],
    vectors: Mapping[str, Words],
    reveals: Mapping[str, Shares],
) -> Floats:
    """The sum of the survivors' vectors, once masks are off and the check word is right.

    `bundles` are the roster's.
    """
    silos, roster = len(agreement.silos), sorted(bundles)
    common = bound_to(agreement.context, question, roster)
    words = unmask(agreement, round_, common, bundles, vectors, reveals)
    scale = exponents(bound, silos, words.size // 2).astype("<i8").tobytes()
    expected = check_word(common, round_, roster, scale)
    spoiled = int((words[-1:] - expected * np.uint64(len(vectors)))[0])
    if 0 < spoiled <= len(vectors):
        raise ProtocolError(
            f"{spoiled} of the silos {', '.join(sorted(vectors))} had a number that is not finite, "
            "or too large to be masked; its own log tells its operator."
        )
    if spoiled:
        raise RepeatRound(
            f"The masks of round {round_} do not cancel, so its sum is thrown away: "
            "the silos did not agree on question, roster, size or bounds; begin a new set-up."
        )
    return decode(words[:-1], silos, bound)


def unmask(
    agreement: Agreement,
    round_: int,
    common: bytes,
    bundles: Mapping[str, Bundle],
    vectors: Mapping[str, Words],
    reveals: Mapping[str, Shares],
) -> Words:
    """The sum of the survivors' encodings; `bundles` are the roster's, `vectors` the survivors'.

    `common` is the context of the question that all of them answered.
    """
    context = agreement.context
    answered = sorted(reveals)[: agreement.t]
    if len(answered) < agreement.t:
        raise RepeatRound(
            f"Only {len(answered)} silos showed their shares in round {round_} and "
            f"{agreement.t} are needed: repeat the round."
        )
    weights = weights_at_zero([agreement.point[silo] for silo in answered])

    def secret(owner: str, public: Callable[[bytes], bytes], expected: bytes) -> bytes:
        found = combine(weights, [reveals[silo][owner] for silo in answered])
        if found is None or public(found) != expected:
            raise RepeatRound(
                f"The shares of silo {owner} in round {round_} do not fit together: "
                "repeat the round."
            )
        return found

    size = next(iter(vectors.values())).size
    total = np.zeros(size, dtype=np.uint64)
    for words in vectors.values():
        total += words
    for silo in vectors:
        pledged = bundles[silo].commitment(round_)
        seed = secret(silo, lambda found: commitment(context, round_, found), pledged)
        total -= self_mask(seed, context, round_, silo, size)
    for dropped in set(bundles) - set(vectors):
        key = secret(dropped, public_of, bundles[dropped].mask_key(round_))
        for silo in vectors:
            theirs = bundles[silo].mask_key(round_)
            total += pair_mask(key, theirs, common, round_, (dropped, silo), size)
    return total
