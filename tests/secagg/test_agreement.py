"""Thresholds, node keys from ssh-keygen, and the agreement that parties must share."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from fairsilo.secagg import Agreement, SecureAggregationError, default_threshold, load_node_key
from fairsilo.secagg.keys import public_bytes, read_public_key, sign, verified
from tests.secagg.federation import agreement, node_key, public_line

OPENSSH = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)


@pytest.mark.parametrize(
    ("silos", "t"), [(3, 3), (4, 3), (5, 4), (6, 5), (7, 5), (9, 7), (10, 7), (50, 34)]
)
def test_default_threshold(silos: int, t: int) -> None:
    assert default_threshold(silos) == t
    assert 3 * t > 2 * silos
    assert agreement(silos).t == t


@pytest.mark.parametrize(
    ("silos", "t"), [(2, None), (2, 2), (6, 3), (8, 4), (6, 4), (5, 2), (3, 2), (5, 6), (5, 0)]
)
def test_thresholds_that_protect_nobody_are_refused(silos: int, t: int | None) -> None:
    with pytest.raises(SecureAggregationError, match="silos"):
        agreement(silos, t)


def test_one_key_for_two_silos_is_refused() -> None:
    lines = {name: public_line(number) for name, number in (("a", 0), ("b", 1), ("c", 0))}
    with pytest.raises(SecureAggregationError, match="same public key"):
        Agreement("f", "r", lines)


def test_context_depends_on_everything_but_comments() -> None:
    base = agreement(4)
    lines = {name: f"{line} me@host\n" for name, line in base.silos.items()}
    assert Agreement("federation", "run 1", lines).context == base.context
    others = [
        Agreement("other", "run 1", base.silos),
        agreement(4, run_id="run 2"),
        agreement(4, 4),
        agreement(5, 4),
        Agreement("federation", "run 1", {**base.silos, "silo 00": public_line(9)}),
    ]
    assert len({base.context, *(other.context for other in others)}) == 6


def test_round_trip() -> None:
    for made in (agreement(4), agreement(7, 5), agreement(6)):
        assert Agreement.from_bytes(made.to_bytes()).context == made.context


@pytest.mark.process
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="NOT TESTED: no ssh-keygen here")
@pytest.mark.parametrize("form", ["RFC4716", "PEM"])
def test_keys_of_ssh_keygen(tmp_path: Path, form: str) -> None:
    path = tmp_path / "node0"
    command = ["ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-m", form]
    subprocess.run([*command, "-f", str(path)], check=True)
    key = load_node_key(path)
    public = read_public_key("bank", (tmp_path / "node0.pub").read_text())
    assert public_bytes(public) == public_bytes(key.public_key())
    assert verified(public, "bundle", b"said", sign(key, "bundle", b"said"))


def test_openssh_bytes_without_ssh_keygen() -> None:
    data = node_key(0).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    assert public_bytes(load_node_key(data).public_key()) == public_bytes(node_key(0).public_key())


def test_a_signature_holds_for_its_kind_words_and_key_only() -> None:
    public, signature = node_key(0).public_key(), sign(node_key(0), "bundle", b"said")
    assert verified(public, "bundle", b"said", signature)
    assert not verified(public, "survivors", b"said", signature)
    assert not verified(public, "bundle", b"sai", signature)
    assert not verified(public, "bundle", b"said", b"")
    assert not verified(node_key(1).public_key(), "bundle", b"said", signature)


def test_keys_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(SecureAggregationError, match="cannot be read"):
        load_node_key(tmp_path / "absent")
    with pytest.raises(SecureAggregationError, match="is no private key"):
        load_node_key(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    other = ed25519.Ed25519PrivateKey.generate()
    data = other.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(SecureAggregationError, match="not ECDSA"):
        load_node_key(data)
    line = other.public_key().public_bytes(*OPENSSH).decode()
    with pytest.raises(SecureAggregationError, match="silo bank is not ECDSA"):
        read_public_key("bank", line)
    with pytest.raises(SecureAggregationError, match="silo bank in the federation file"):
        read_public_key("bank", "not a key")
    assert isinstance(load_node_key(_pem()), ec.EllipticCurvePrivateKey)


def _pem() -> bytes:
    return node_key(0).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
