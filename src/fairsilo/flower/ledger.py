"""What a silo remembers from run to run: over whom the counts of its rows were opened.

A file of the silo's own beside its settings. It holds digests of tables and of public keys, no
number and no secret. Silos are told apart by their keys, because names may change from one
federation file to the next; a table that changed is another table, whose counts are new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from fairsilo.data.files import write_atomic
from fairsilo.errors import FairSiloError
from fairsilo.flower.charter import Charter
from fairsilo.privacy.static import StaticSumGuard


def admit(path: Path, charter: Charter, table: str, survivors: Sequence[str]) -> None:
    """Note that the counts of this table are opened over these silos, or refuse.

    Where the federation file has `recount`, it is noted and not refused.
    """
    guard = read(path)
    keys = {silo.name: silo.public_key.split()[1] for silo in charter.silos}
    known = [hashlib.sha256(keys[name].encode()).hexdigest()[:32] for name in survivors]
    if charter.recount:
        guard.note(table, known)
    else:
        guard.admit(table, known)
    write_atomic(path, guard.to_bytes())


def read(path: Path) -> StaticSumGuard:
    """The guard as it was left by earlier runs; an unreadable one is never taken for empty."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return StaticSumGuard()
    except OSError as error:
        raise FairSiloError(f"cannot read the ledger {path} ({error.strerror})") from None
    return StaticSumGuard.from_bytes(content)
