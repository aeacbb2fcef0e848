"""Node keys: made at the silo, known to the others by their public half in the federation file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairsilo.errors import FairSiloError
from fairsilo.network.federation_file import FederationFile


def make_key(private: Path, name: str) -> str:
    """Make a node key: the private half in a file only its owner reads, the public one beside it.

    Returns the public line. An existing key is never overwritten.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    write_secret(private, secret)
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    public = f"{line.decode()} {name}\n"
    private.with_name(private.name + ".pub").write_text(public)
    return public.strip()


def write_secret(path: Path, content: bytes) -> None:
    """A file that nobody but its owner can read, at no moment; refused where it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FairSiloError(
            f"{path} exists already and is not overwritten: choose another place"
        ) from None
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def read_public_key(line: str) -> ec.EllipticCurvePublicKey:
    """The key in one line of OpenSSH's format."""
    try:
        key = serialization.load_ssh_public_key(line.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise FairSiloError(
            "a silo's public key is not an ECDSA key in OpenSSH's format: take the .pub file of "
            "`fairsilo flower keygen`"
        )
    return key


def silo_names(agreed: FederationFile) -> Callable[[Any], str | None]:
    """Says which silo a Flower node is: by its public key, None for a node of no silo."""
    known = {read_public_key(silo.public_key).public_numbers(): silo.name for silo in agreed.silos}

    def name(node: Any) -> str | None:
        try:
            key = serialization.load_pem_public_key(bytes(node.public_key))
        except (ValueError, UnsupportedAlgorithm):
            return None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return None
        return known.get(key.public_numbers())

    return name
