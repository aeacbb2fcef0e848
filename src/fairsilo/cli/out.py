"""`--out`, tried before any work is done."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from fairsilo.errors import FairSiloError


def check_out(folder: Path) -> None:
    """Refuse, before training, a folder that cannot be made or written.

    What the system says beforehand is not enough: the folder and a file in it are made, and removed
    again.
    """
    missing: list[Path] = []
    try:
        for part in (folder.absolute(), *folder.absolute().parents):
            if part.exists():
                break
            missing.append(part)
        if not part.is_dir():
            raise FairSiloError(f"--out {folder}: {part} is a file, so give another folder")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FairSiloError(
            f"--out {folder} cannot be written ({error.strerror}): give another folder"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            for part in missing:
                part.rmdir()


def check_file(path: Path) -> None:
    """Refuse, before any work, a file that cannot be written."""
    check_out(path.parent)
    if path.is_dir():
        raise FairSiloError(f"--out {path} is a folder: name a file in it")
    if path.exists() and not os.access(path, os.W_OK):
        raise FairSiloError(f"--out {path}: you may not write it, so give another file")
