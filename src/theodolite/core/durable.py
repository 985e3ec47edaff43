"""What is said to be on disk is on disk: synced files and folders, their hashes, and folders put in place whole."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

CHUNK = 2**20


def sync(path: Path) -> None:
    """Wait until the bytes of a file, or the names in a folder, would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        buffer = memoryview(bytearray(CHUNK))
        while size := file.readinto(buffer):
            digest.update(buffer[:size])
    return digest.hexdigest()


def replace_folder(partial: Path, target: Path) -> None:
    """Give a finished folder its name. A folder of that name is set aside first, and put back where this fails."""
    old = set_aside(target)
    replaced = target.exists()
    if replaced:
        target.rename(old)
    try:
        partial.rename(target)
    except OSError:
        if replaced:
            old.rename(target)
        raise
    sync(target.parent)
    if replaced:
        shutil.rmtree(old)


def undo_half_replacement(target: Path) -> None:
    """Tidy what a crash inside `replace_folder` left: an old folder gets its name back, or goes if the new one is in place."""
    old = set_aside(target)
    if not old.exists():
        return
    if target.exists():
        shutil.rmtree(old)
    else:
        old.rename(target)


def set_aside(target: Path) -> Path:
    """Where a folder waits while another takes its name."""
    return target.with_name(f".{target.name}.old")
