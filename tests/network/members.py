"""Members of a federation file whose silos are nowhere: their keys are real, and kept by nobody."""

from cryptography.hazmat.primitives.asymmetric import ec

from fairsilo.network.federation_file import Member
from fairsilo.secagg.keys import public_bytes


def members(*names: str) -> tuple[Member, ...]:
    keys = (ec.generate_private_key(ec.SECP384R1()).public_key() for _ in names)
    return tuple(
        Member(name=name, public_key=public_bytes(key).decode())
        for name, key in zip(names, keys, strict=True)
    )
