"""A certificate authority of the consortium's own, and the server's certificate signed by it."""

from __future__ import annotations

import datetime
import ipaddress
import math
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.network.ops.keys import write_secret

CA, CA_KEY = "ca.pem", "ca.key"
SERVER, SERVER_KEY = "server.pem", "server.key"
AUTHORITY_DAYS, SERVER_DAYS = 3652, 730
"""How long both are valid. The server's is signed anew with the authority's key (`renew`)."""
SOON = 30
"""With fewer days left it is said that a certificate ends."""
NAMES = {SERVER: "the server's certificate", CA: "the authority's certificate"}
WHAT_NEXT = (
    "renew it with `fairsilo flower renew` at the coordinator, and start the SuperLink again"
)


def make_certificates(folder: Path, host: str) -> None:
    """Write the authority and the server's certificate for `host`, a name or an address.

    The authority's key is needed again only for a new server certificate: keep it off line.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    server_key = ec.generate_private_key(ec.SECP384R1())
    write_secret(folder / CA_KEY, _secret(key))
    write_secret(folder / SERVER_KEY, _secret(server_key))
    (folder / CA).write_bytes(_pem(_authority(key)))
    (folder / SERVER).write_bytes(_pem(_server(server_key, host, key)))


def renew(folder: Path, host: str, key_file: Path) -> bool:
    """Sign a new server certificate, for a new key, with the authority's key in `key_file`.

    Whether the authority's own certificate was made anew, too: with the same key, where the old one
    would end before the server's. Silos that have the old one go on until it ends.
    """
    key, authority = _authority_key(key_file), _read(folder / CA)
    if key.public_key() != authority.public_key():
        raise FairSiloError(
            f"the key in {key_file} is not that of {folder / CA}: give `ca_key` the authority's"
        )
    server_key = ec.generate_private_key(ec.SECP384R1())
    server = _server(server_key, host, key)
    again = authority.not_valid_after_utc < server.not_valid_after_utc
    if again:
        write_atomic(folder / CA, _pem(_authority(key)))
    write_atomic(folder / SERVER_KEY, _secret(server_key), 0o600)
    write_atomic(folder / SERVER, _pem(server))
    return again


def days_left(path: Path) -> int:
    """Whole days until a certificate ends; negative where it has ended."""
    left = _read(path).not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return math.floor(left.total_seconds() / 86400)


def last_day(path: Path) -> str:
    """The day on which a certificate ends."""
    return f"{_read(path).not_valid_after_utc:%Y-%m-%d}"


def ended(folder: Path) -> list[str]:
    """Sentences about certificates in a folder that have ended."""
    return [told for name, told in _told(folder).items() if days_left(folder / name) < 0]


def ending(folder: Path) -> list[str]:
    """The same of those that have ended or will soon."""
    return list(_told(folder).values())


def _told(folder: Path) -> dict[str, str]:
    found = {}
    for name, words in NAMES.items():
        if not (folder / name).exists() or (left := days_left(folder / name)) >= SOON:
            continue
        when = last_day(folder / name)
        how = f"ended on {when}" if left < 0 else f"ends on {when}, in {left} days"
        more = ", and send every silo its new ca.pem" if name == CA else ""
        found[name] = f"{words} ({name}) {how}: {WHAT_NEXT}{more}"
    return found


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    usage = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
    return (
        _builder("FairSilo federation", "FairSilo federation", key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def _server(
    key: ec.EllipticCurvePrivateKey, host: str, authority: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    names = list(dict.fromkeys([host, "localhost", "127.0.0.1"]))
    usage = dict.fromkeys(_USAGES, False) | {"digital_signature": True}
    return (
        _builder(host, "FairSilo federation", key, SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName(map(_name, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()),
            critical=False,
        )
        .sign(authority, hashes.SHA384())
    )


_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def _builder(
    subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _secret(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _read(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError):
        raise FairSiloError(
            f"{path} cannot be read, or is no certificate: put back the one that the coordinator's "
            "working folder had"
        ) from None


def _authority_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        raise FairSiloError(
            f"the authority's key is not at {path}: give `ca_key` the place to which it was moved"
        ) from None
    except (OSError, ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise FairSiloError(f"{path} cannot be read, or is no private key: give another `ca_key`")
    return key
