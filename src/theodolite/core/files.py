"""Files and folders that are whole or absent: written under a temporary name, synced, then renamed; one writer at a time."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from theodolite.core.options import option


class BusyError(OSError):
    """Another process is writing to the same place."""


def sync(path: Path) -> None:
    """Wait until the bytes of a file, or the names in a folder, would survive a power cut.

    Parameters
    ----------
    path
        An existing file or folder.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file as a hexadecimal string, read in chunks.

    Parameters
    ----------
    path
        An existing file.
    """
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def natural_key(name: str) -> tuple[list[tuple[int, int | str]], str]:
    """A sort key for file names under which numbers count by value: the one order of shards, whoever reads them.

    Parameters
    ----------
    name
        The name to sort.

    Examples
    --------
    >>> sorted(["shard-10", "shard-2"], key=natural_key)
    ['shard-2', 'shard-10']
    """
    # Not isdigit(): it accepts characters such as ², which int() does not.
    parts: list[tuple[int, int | str]] = [(0, int(x)) if x.isdecimal() else (1, x) for x in re.split(r"(\d+)", name)]
    return parts, name  # the name itself orders 1 and 01


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Parameters
    ----------
    text
        The text; bytes are UTF-8.

    Raises
    ------
    ValueError
        It is not JSON, or nested so deeply that the parser gives up.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def require_regular(path: Path) -> Path:
    """The path, unless it is a pipe, a socket or a device: reading one may never end, and can be done once at most.

    Parameters
    ----------
    path
        An existing file or folder.

    Raises
    ------
    ValueError
        It is neither a file nor a folder.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a pipe or a device, which cannot be read twice; write its content to a file first")
    return path


def require_free(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a file could be written there; called before long work rather than after it.

    Parameters
    ----------
    path
        The file that is going to be written.
    overwrite
        Whether a file that exists may be replaced.

    Raises
    ------
    FileExistsError
        The file exists and `overwrite` is False.
    IsADirectoryError
        The path is a folder.
    FileNotFoundError
        The folder to write into does not exist.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; choose another name, or replace it with {option('overwrite')}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; create it first")
    return path


def require_free_folder(folder: str | os.PathLike[str], *, overwrite: bool = False, marker: str = "") -> Path:
    """The folder, if it does not exist yet or may be replaced; called before long work rather than after it.

    Parameters
    ----------
    folder
        The folder that is going to be written.
    overwrite
        Whether a folder that exists may be replaced; a file never is.
    marker
        Name of a file that shows that the folder is ours, such as `space.json`: a folder without it is never replaced.

    Raises
    ------
    FileExistsError
        There is a file or folder of that name that may not be replaced.
    """
    folder = Path(folder)
    if not folder.exists() and not folder.is_symlink():
        return folder
    if not folder.is_dir():
        raise FileExistsError(f"{folder} exists and is not a folder, so it is not replaced; choose another name")
    if not overwrite:
        raise FileExistsError(f"{folder} exists already; choose another folder, or replace it with {option('overwrite')}")
    if marker and not (folder / marker).is_file():
        raise FileExistsError(f"{folder} exists and does not contain {marker}, so it is not replaced; choose another folder")
    return folder


@contextmanager
def whole_file(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Write a file that appears under its name only once it is complete and on disk.

    Parameters
    ----------
    path
        The name the file gets in the end.
    overwrite
        Whether a file of that name may be replaced.

    Yields
    ------
    Path
        A temporary name in the same folder, to write to. It is removed if the block raises.
    """
    path = require_free(path, overwrite=overwrite)
    # With the number of the process: two that write the same file do not share a partial one.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        sync(partial)  # before the rename, or a power cut could leave the new name with no content
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str, *, overwrite: bool = True) -> None:
    """Write UTF-8 text to a file, whole or not at all.

    Parameters
    ----------
    path
        The file to write.
    text
        Its content.
    overwrite
        Whether a file of that name may be replaced.
    """
    with whole_file(path, overwrite=overwrite) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | os.PathLike[str], values: Any) -> None:
    """Write values to a file as indented JSON, whole or not at all.

    Parameters
    ----------
    path
        The file to write or replace.
    values
        Anything that JSON can hold.
    """
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def whole_folder(target: str | os.PathLike[str], *, overwrite: bool = False, marker: str = "") -> Iterator[Path]:
    """Fill a folder that appears under its name only once it is complete and on disk.

    Parameters
    ----------
    target
        The name the folder gets in the end.
    overwrite
        Whether a folder of that name may be replaced; it is replaced only after the new one is complete.
    marker
        Name of a file without which a folder is never replaced; see `require_free_folder`.

    Yields
    ------
    Path
        A temporary folder next to the target, to write into. It is removed if the block raises.
    """
    target = Path(target)
    undo_half_replacement(target)
    require_free_folder(target, overwrite=overwrite, marker=marker)
    # Not tempfile.mkdtemp: its folders can be read by their owner only.
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    partial.mkdir(parents=True)
    try:
        yield partial
        for path in (*partial.rglob("*"), partial):
            sync(path)
        replace_folder(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_folder(partial: Path, target: Path) -> None:
    """Give a finished folder its name. A folder of that name is set aside first, and put back if this fails.

    Parameters
    ----------
    partial
        The finished folder, in the same folder as the target.
    target
        The name it gets.
    """
    if target.exists():
        target.rename(set_aside(target))
    try:
        partial.rename(target)
        sync(target.parent)  # the old folder is deleted only after the new name is on disk
    finally:
        undo_half_replacement(target)


def undo_half_replacement(target: Path) -> None:
    """Clean up after a crash inside `replace_folder`: restore the old folder, or delete it if the new one is in place.

    Parameters
    ----------
    target
        The name that the folder has, or should have.
    """
    old = set_aside(target)
    if not old.exists():
        return
    if target.exists():
        shutil.rmtree(old)
    else:
        old.rename(target)


def set_aside(target: Path) -> Path:
    """The name that an old folder has while a new one takes its place.

    Parameters
    ----------
    target
        The name that both share.
    """
    return target.with_name(f".{target.name}.old")


class Lock:
    """The sole right to write to `target`, until it is released or the process ends, however it ends.

    The kernel keeps the lock (`flock`), so a killed process leaves none behind and no process number has to be trusted; the
    number in the file is only for the error message.

    Parameters
    ----------
    target
        The file or folder to be written; the lock is a hidden file next to it.

    Raises
    ------
    BusyError
        Another process holds the lock; the message names it.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f".{target.name}.lock")
        self._handle: int | None = _acquire(self.path, target)
        self._holder = os.getpid()

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others write; releasing twice does nothing."""
        if self._handle is None:
            return
        if os.getpid() == self._holder:  # a forked child has the handle too, but must not give up its parent's lock
            self.path.unlink(missing_ok=True)  # before the lock opens: whoever holds this file next sees that it is gone
        os.close(self._handle)
        self._handle = None


def _acquire(path: Path, target: Path) -> int:
    import fcntl  # Unix only

    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise BusyError(f"process {holder} is writing to {target}; wait until it ends, or choose another name") from None
        except OSError as error:
            os.close(handle)
            raise OSError(f"{target.parent} cannot lock files ({error}); write to a local disk, then move the folder") from error
        # The holder before us may have removed the file after we opened it: the lock is then on a file that no one else finds.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                os.ftruncate(handle, 0)
                os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        os.close(handle)
