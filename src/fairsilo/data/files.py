"""Atomic file writes: after a crash a file has its old content or its new, never a part."""

import errno
import os
import secrets
from pathlib import Path

from fairsilo.errors import FairSiloError

FULL = (errno.ENOSPC, errno.EDQUOT)
"""What the system says of a full disk."""


def write_atomic(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write `content` through a temporary file in the same folder, creating the folder.

    A crash leaves the old file (or none), because the rename comes after an fsync. `mode`: the
    file's rights, less what the umask takes away.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, content, mode)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        if error.errno in FULL:
            raise FairSiloError(f"cannot write {path} ({reason}): free space") from error
        raise FairSiloError(f"cannot write {path} ({reason}); choose another folder") from error


def _sync_folder(folder: Path) -> None:
    """Make the rename durable, so that a power cut does not bring the old file back."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(path: Path, content: bytes, mode: int) -> None:
    # Not tempfile.mkstemp: it ignores the umask and makes files that only their owner can read.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        if os.name == "posix":
            _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
