"""A certificate authority of the consortium's own, and the server's certificate signed by it."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairsilo.network.ops.keys import write_secret

CA, CA_KEY = "ca.pem", "ca.key"
SERVER, SERVER_KEY = "server.pem", "server.key"
YEARS = 2


def make_certificates(folder: Path, host: str) -> None:
    """Write the authority and the server's certificate for `host`, a name or an address.

    The authority's key is needed again only for a new server certificate: keep it off line.
    """
    authority_key = ec.generate_private_key(ec.SECP384R1())
    authority = _builder("FairSilo federation", "FairSilo federation", authority_key)
    usage = dict.fromkeys(_USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
    signed = (
        authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA384())
    )
    server_key = ec.generate_private_key(ec.SECP384R1())
    names = list(dict.fromkeys([host, "localhost", "127.0.0.1"]))
    usage = dict.fromkeys(_USAGES, False) | {"digital_signature": True}
    server = (
        _builder(host, "FairSilo federation", server_key)
        .add_extension(x509.SubjectAlternativeName(map(_name, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .sign(authority_key, hashes.SHA384())
    )
    write_secret(folder / CA_KEY, _secret(authority_key))
    write_secret(folder / SERVER_KEY, _secret(server_key))
    (folder / CA).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / SERVER).write_bytes(server.public_bytes(serialization.Encoding.PEM))


_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"),
    *("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
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
