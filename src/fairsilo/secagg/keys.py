"""The silos' node keys: ECDSA keys from ssh-keygen, by which Flower identifies SuperNodes."""

import os
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairsilo.secagg.errors import SecureAggregationError

NodeKey = ec.EllipticCurvePrivateKey
LABEL = b"fairsilo secure aggregation 1\0"
PASSPHRASE = "FAIRSILO_KEY_PASSPHRASE"
"""The variable with the passphrase of a node key that has one."""


def load_node_key(source: str | Path | bytes) -> NodeKey:
    """The private key in an OpenSSH or PEM file, or in the bytes of one."""
    try:
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise SecureAggregationError(f"The node key {source!s} cannot be read.") from error
    where = "in memory" if isinstance(source, bytes) else str(source)
    try:
        key = _opened(data)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        if is_locked(data) and isinstance(error, UnsupportedAlgorithm):
            raise SecureAggregationError(
                f"The node key {where} is locked as ssh-keygen does it, which needs the package "
                "bcrypt; install it, or make a key with: fairsilo flower keygen."
            ) from error
        if is_locked(data):
            wrong = "is not its passphrase" if os.environ.get(PASSPHRASE) else "is not set"
            raise SecureAggregationError(
                f"The node key {where} has a passphrase, and the variable {PASSPHRASE} {wrong}."
            ) from error
        raise SecureAggregationError(
            f"The node key {where} is no private key; make one with: ssh-keygen -t ecdsa -b 384."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise SecureAggregationError(
            f"The node key {where} is not ECDSA; make one with: ssh-keygen -t ecdsa -b 384."
        )
    return key


def _opened(data: bytes) -> object:
    """The key, with the passphrase where it needs one."""
    try:
        return _load(data, None)
    except TypeError:
        return _load(data, os.environ.get(PASSPHRASE))
    except (ValueError, UnsupportedAlgorithm):
        if b"ENCRYPTED" not in data:
            raise
        return _load(data, os.environ.get(PASSPHRASE))


def is_locked(data: bytes) -> bool:
    """Whether a private key can be read only with a passphrase."""
    try:
        _load(data, None)
    except TypeError:
        return True
    except (ValueError, UnsupportedAlgorithm):
        return b"ENCRYPTED" in data
    return False


def _load(data: bytes, passphrase: str | None) -> object:
    password = None if passphrase is None else passphrase.encode()
    if b"BEGIN OPENSSH" in data:
        return serialization.load_ssh_private_key(data, password)
    return serialization.load_pem_private_key(data, password)


@lru_cache(maxsize=4096)
def read_public_key(silo: str, text: str) -> ec.EllipticCurvePublicKey:
    """The public key in a line in OpenSSH format, as in the federation file."""
    try:
        key = serialization.load_ssh_public_key(text.strip().encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise SecureAggregationError(
            f"The public key of silo {silo} in the federation file cannot be read."
        ) from error
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SecureAggregationError(f"The public key of silo {silo} is not ECDSA.")
    return key


def public_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    """The key itself, without the comment of its line."""
    return key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


@lru_cache(maxsize=4096)
def key_bytes(silo: str, text: str) -> bytes:
    """`public_bytes` of the key in a line."""
    return public_bytes(read_public_key(silo, text))


def sign(key: NodeKey, kind: str, payload: bytes) -> bytes:
    """A signature that is valid for messages of this kind only."""
    return key.sign(LABEL + kind.encode() + b"\0" + payload, ec.ECDSA(hashes.SHA384()))


def verified(key: ec.EllipticCurvePublicKey, kind: str, payload: bytes, signature: bytes) -> bool:
    """Whether the holder of `key` signed `payload` as a message of this kind."""
    try:
        key.verify(signature, LABEL + kind.encode() + b"\0" + payload, ec.ECDSA(hashes.SHA384()))
    except InvalidSignature:
        return False
    return True
