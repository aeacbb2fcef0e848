"""`--out`, tried before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from fairsilo.errors import FairSiloError


def check_out(folder: Path) -> None:
    """Refuse, before training, a folder that cannot be made or written; nothing is made yet."""
    try:
        there = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    except OSError as error:
        raise FairSiloError(
            f"--out {folder} cannot be used ({error.strerror}): give another folder"
        ) from None
    if not there.is_dir():
        raise FairSiloError(f"--out {folder}: {there} is a file, so give another folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise FairSiloError(f"--out {folder}: you may not write in {there}, so give another folder")


def check_file(path: Path) -> None:
    """Refuse, before any work, a file that cannot be written."""
    check_out(path.parent)
    if path.is_dir():
        raise FairSiloError(f"--out {path} is a folder: name a file in it")
    if path.exists() and not os.access(path, os.W_OK):
        raise FairSiloError(f"--out {path}: you may not write it, so give another file")
