"""A party of the federation file: its name and its keys, each of which signed the next."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fairsilo.errors import FairSiloError
from fairsilo.network.chain import Past, check_chain
from fairsilo.secagg.keys import public_bytes, read_public_key


class Member(BaseModel):
    """A silo as the others know it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=60, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    public_key: str
    """One line in OpenSSH's format: ecdsa-sha2-nistp384 AAAA..."""
    past: tuple[Past, ...] = ()
    """The keys that it had before, the first one first."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that it ever had, the first one first."""
        return (*(one.public_key for one in self.past), self.public_key)

    @model_validator(mode="after")
    def _chained(self) -> Self:
        try:
            for line in self.keys:
                # A key in another spelling would be another silo to a ledger.
                key = public_bytes(read_public_key(self.name, line)).decode().split()
                if line.split()[:2] != key:
                    raise FairSiloError(
                        f"a public key of silo {self.name} is not spelled as in the .pub file of "
                        "`fairsilo flower keygen`: take it from there"
                    )
            check_chain(self.name, self.past, self.public_key)
        except FairSiloError as error:
            raise ValueError(str(error)) from None
        return self


def read_parties(path: Path) -> tuple[Member, ...]:
    """The silos and witnesses of a federation file of any version, with their last keys."""
    try:
        told = json.loads(path.read_bytes())
        return tuple(
            Member(name=one["name"], public_key=one["public_key"])
            for one in (*told["silos"], *told.get("witnesses", ()))
        )
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        raise FairSiloError(
            f"cannot read who took part from {path}: keys of silos that left since are not refused"
        ) from None
