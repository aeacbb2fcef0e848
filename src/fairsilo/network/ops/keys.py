"""Node keys: made at the silo, known to the others by their public half in the federation file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fairsilo.errors import FairSiloError
from fairsilo.secagg.keys import PASSPHRASE, is_locked, load_node_key, read_public_key

if TYPE_CHECKING:
    from fairsilo.network.member import Member


def make_key(private: Path, name: str, passphrase: str = "") -> str:
    """Make a node key: the private half in a file only its owner reads, the public one beside it.

    Returns the public line. An existing key is never overwritten. With a passphrase the file is
    of no use without it.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    write_secret(private, _locked(key, passphrase) if passphrase else _open(key))
    line = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    public = f"{line.decode()} {name}\n"
    private.with_name(private.name + ".pub").write_text(public)
    return public.strip()


def _open(key: ec.EllipticCurvePrivateKey) -> bytes:
    """As Flower reads a node's key."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def _locked(key: ec.EllipticCurvePrivateKey, passphrase: str) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase.encode()),
    )


def unlock(
    key: Path | None, file: Path | None = None, ask: Callable[[str], str] | None = None
) -> None:
    """See to it that this process and its children can read a key that has a passphrase.

    The passphrase is in a variable already, or in a file that only its owner reads, or asked for.
    """
    if key is None or not key.is_file() or os.environ.get(PASSPHRASE):
        return
    if not is_locked(key.read_bytes()):
        return
    if file is not None:
        os.environ[PASSPHRASE] = read_passphrase(file)
    elif ask is not None:
        os.environ[PASSPHRASE] = ask(f"Passphrase of {key}")
    else:
        raise FairSiloError(
            f"{key} has a passphrase and nobody can be asked for it here: set the variable "
            f"{PASSPHRASE}, or name a file with passphrase_file in the silo's settings"
        )
    try:
        load_node_key(key)
    except FairSiloError:
        del os.environ[PASSPHRASE]
        raise


def read_passphrase(file: Path) -> str:
    """The first line of a file that nobody but its owner can read."""
    try:
        if file.stat().st_mode & 0o077:
            raise FairSiloError(f"others can read the passphrase in {file}: chmod 600 it")
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise FairSiloError(f"the file {file} with the key's passphrase cannot be read") from None
    if not lines or not lines[0]:
        raise FairSiloError(f"the file {file} has no passphrase in its first line")
    return lines[0]


def for_flower(key: str) -> str:
    """Where Flower, which knows no passphrases, reads this key: in this process's memory alone."""
    if not is_locked(Path(key).read_bytes()):
        return key
    if not hasattr(os, "memfd_create"):
        raise FairSiloError(f"{key} has a passphrase, which a silo can use on Linux only")
    memory = os.memfd_create("key")
    os.write(memory, _open(load_node_key(Path(key))))
    return f"/proc/self/fd/{memory}"


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


def silo_names(parties: Iterable[Member]) -> Callable[[Any], str | None]:
    """Says which silo or witness a Flower node is: by its public key, None for any other node."""
    known = {
        read_public_key(one.name, one.public_key).public_numbers(): one.name for one in parties
    }

    def name(node: Any) -> str | None:
        try:
            key = serialization.load_pem_public_key(bytes(node.public_key))
        except (ValueError, UnsupportedAlgorithm):
            return None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            return None
        return known.get(key.public_numbers())

    return name
