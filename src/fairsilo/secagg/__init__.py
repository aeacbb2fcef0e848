"""Secure aggregation: the server learns sums over at least t silos, and nothing else.

Pairwise masking of Bonawitz et al. 2017 (double masks, Shamir shares against drop-outs) as a
pure library: no network, no clock, no files. Every message is `bytes` or a uint64 array. A silo's
session can be saved with `to_bytes` and restored, because it may handle each message in a new
process.
The protocol, its security argument and its limits: docs/secure-aggregation.md.

All parties agree beforehand on the following (silos take it from their own federation file, not
from the server; only the run id is new):

    agreement = Agreement(
        fingerprint="sha256 of the federation file", run_id="run 17",
        silos={"bank": "ecdsa-sha2-nistp384 AAAA...", "clinic": ...},   # OpenSSH public keys
        threshold=None)             # t; None: max(3, floor(2N/3) + 1)
    key = load_node_key(path)       # OpenSSH or PEM private key, ECDSA

Set-up takes two exchanges, for many rounds at once. Round numbers are the protocol's own counter,
chosen by the server and always increasing; a repeated solver round takes a new number.

    server                                          silo
    server = ServerSession(agreement)               session = SiloSession(agreement, "bank")
    first, last = server.begin_setup(rounds=20)  -> bundle = session.advertise(first, last, key)
    server.add_bundle("bank", bundle)            <-
    bundles = server.bundles()                   -> letters = session.share(bundles)
    server.add_letters("bank", letters)          <-     # {recipient: bytes}
                                                        # bundles: {silo: bytes}

A round takes three exchanges:

    r = server.open_round(size)                     # size: how many floats; also bound=
    for silo in server.roster():
        letters = server.letters_for(silo)       -> session.receive(letters)   # {} after the first
                                                    words = session.masked(r, vector)   # bound=
    server.add_masked("bank", r, words)          <-     # uint64, 2 * size + 1; False: late, ignored
    answers = server.close_round()               -> signature = session.confirm(r, answers, key)
    server.add_confirmation("bank", r, signature) <-    # answers: {survivor: digest of its words}
    signatures = server.confirmations()          -> reply = session.reveal(r, answers, signatures)
    server.add_reveal("bank", r, reply)          <-     # False: late, ignored
    total = server.total()                          # float64, the sum over the survivors
    server.transcript                               # what a witness needs to add it up again

Exceptions, all of them `FairSiloError` with one sentence:

    RepeatRound         fewer than t silos are left at this step, or one of a list did not sign it:
                        open a new round (or, when raised by `bundles` or `open_round`, begin a new
                        set-up)
    ProtocolError       a message or call that the protocol refuses: forged, replayed, reused, ...
    SecureAggregationError   the parent of both; raised itself for a bad agreement or key
    (numbers that cannot be encoded raise FairSiloError in `masked`, before anything is masked,
    and leave the round unused)

`server.total()` clears the round. `server.rounds_left()` says when a new set-up is due;
`begin_setup` may be called at any time (for a silo that joins late) and discards the rounds left.
A silo not in the roster of the current set-up takes part again from the next one.
A silo of the roster that misses a round may answer the next.

A silo keeps a `StaticSumGuard` for sums that do not change between rounds (counts, encoder):
`guard.admit("encoder", survivors)`, before it sends what `confirm` gives, refuses sums from which
one silo's share could follow by subtraction.
"""

from fairsilo.secagg.agreement import Agreement
from fairsilo.secagg.errors import ProtocolError, RepeatRound, SecureAggregationError
from fairsilo.secagg.keys import load_node_key
from fairsilo.secagg.ring import DEFAULT_BOUND
from fairsilo.secagg.server import ServerSession
from fairsilo.secagg.silo import SiloSession
from fairsilo.secagg.static import StaticSumGuard
from fairsilo.secagg.transcript import Transcript
from fairsilo.threshold import default_threshold

__all__ = [
    "DEFAULT_BOUND",
    "Agreement",
    "ProtocolError",
    "RepeatRound",
    "SecureAggregationError",
    "ServerSession",
    "SiloSession",
    "StaticSumGuard",
    "Transcript",
    "default_threshold",
    "load_node_key",
]
