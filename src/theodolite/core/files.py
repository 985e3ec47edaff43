"""Files and folders that are whole or absent, ours, and written by one process at a time.

One rule for every verb: what exists is replaced only on request, a folder only if a marker in it proves that this package wrote
it, and only by renaming a complete copy that was written next to it. A process that is killed at any point leaves the old content
or the new one under its name or in a hidden folder next to it, from which the next reader or writer puts it back.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from theodolite.core.spelling import option

# Seconds to wait for another process that writes the same thing, if writing it takes moments.
WAIT = 10.0
# Folders in which this process has begun work that the same command would continue; an interruption names those that exist.
UNFINISHED: set[Path] = set()


class BusyError(OSError):
    """Another process is writing to the same place."""


@dataclass(frozen=True)
class Marker:
    """How the folders of a verb are known: a JSON file in them that has its format and the verb."""

    file: str
    verb: str
    format: int = 1

    @property
    def about(self) -> dict[str, Any]:
        """What the file contains, besides what else its writer puts there."""
        return {"format": self.format, "verb": self.verb}

    def is_in(self, folder: Path) -> bool:
        """Whether the folder was provably written by the verb."""
        try:
            content = json.loads((folder / self.file).read_bytes())
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(content, dict) and type(content.get("format")) is int and content.get("verb") == self.verb


def sync(path: Path) -> None:
    """Wait until the bytes of a file, or the names in a folder, would survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file as a hexadecimal string, read in chunks."""
    with path.open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_all(folder: Path) -> None:
    """Wait until a folder and all that is in it would survive a power cut."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def hashes_in(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file in a folder and in the folders in it, by relative name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_of(path) for path in files}


def changed_file(folder: Path, hashes: Mapping[str, str]) -> Path | None:
    """The first file that is missing or has another hash than it had; None if all are as they were."""
    for name, digest in hashes.items():
        if not (folder / name).is_file() or sha256_of(folder / name) != digest:
            return folder / name
    return None


def natural_key(name: str) -> tuple[list[tuple[int, int | str]], str]:
    """A sort key for file names under which numbers count by value: the one order of shards, whoever reads them.

    Examples
    --------
    >>> sorted(["shard-10", "shard-2"], key=natural_key)
    ['shard-2', 'shard-10']
    """
    # Not isdigit(): it accepts characters such as ², which int() does not.
    parts: list[tuple[int, int | str]] = [(0, int(x)) if x.isdecimal() else (1, x) for x in re.split(r"(\d+)", name)]
    return parts, name  # the name itself orders 1 and 01


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


@contextmanager
def reading(path: Path, what: str, *, again: str = "copy it again, or write it again") -> Iterator[None]:
    """Turn whatever another library raises about a damaged file into one sentence; `again` is the way out."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # libraries report damage by errors of every kind, of their own too
        problem = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"{path} is damaged, or is not {what} ({problem}); {again}") from error


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    with reading(path, "JSON"):
        return parse_json(path.read_bytes())


def require_regular(path: Path) -> Path:
    """The path, unless it is a pipe, a socket or a device: reading one may never end, and can be done once at most."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a pipe or a device, which cannot be read twice; save its content to a file first")
    return path


def require_free(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a file could be written there; called before long work rather than after it."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists already; choose another name, or replace it with {option('overwrite')}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into; create it first")
    return path


def require_free_folder(folder: str | os.PathLike[str], *, overwrite: bool = False, marker: Marker | None = None) -> Path:
    """The folder, if it does not exist yet or may be replaced; called before long work rather than after it.

    A folder without the marker is never replaced; None only for a folder inside one that is ours.
    """
    folder = Path(folder)
    recover_folder(folder)
    if not folder.exists() and not folder.is_symlink():
        return folder
    if not folder.is_dir():
        raise FileExistsError(f"{folder} exists and is not a folder, so it is not replaced; choose another name")
    if marker is not None and overwrite and not marker.is_in(folder):
        problem = f"exists and does not contain a {marker.file} of the verb {marker.verb}, so it is not replaced"
        raise FileExistsError(f"{folder} {problem}; choose another folder")
    if not overwrite:
        raise FileExistsError(f"{folder} exists already; choose another folder, or replace it with {option('overwrite')}")
    return folder


def require_own_folder(folder: Path) -> None:
    """Make a folder for unfinished work, or continue in the one that is there; a link in its place would lead elsewhere."""
    if folder.is_symlink():
        raise FileExistsError(f"{folder} is a link, but unfinished work is written to a folder of that name; remove the link")
    folder.mkdir(exist_ok=True)


def require_outside(target: Path, source: str | os.PathLike[str] | None) -> None:
    """Raise an error if replacing a folder would delete what it is made from."""
    written, read = target.resolve(), Path(source or "/").resolve()
    if read.exists() and (written == read or written in read.parents):
        raise ValueError(f"{target} cannot be replaced, because {source} in it is still needed; write to another folder")


@contextmanager
def atomic_file(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Write a file that appears under its name only once it is complete and on disk; by one process at a time.

    Yields an empty file of a name that nobody can guess, in the same folder; it is removed if the block raises. Raises BusyError
    if another process goes on writing the same file for more than `WAIT` seconds.
    """
    path = require_free(path, overwrite=overwrite)
    with Lock(path, wait=WAIT, required=False) as lock:
        path = require_free(path, overwrite=overwrite)  # another process may have written it while this one waited
        form = hidden(path, "{}.partial").name
        if lock.held:  # then no other process is writing, and such a file is what a killed one left
            for other in path.parent.iterdir():
                if re.fullmatch(re.escape(form).replace(r"\{\}", "[0-9a-f]{16}"), other.name):
                    other.unlink(missing_ok=True)
        partial = path.with_name(form.format(secrets.token_hex(8)))
        # Whoever can write to the folder may have put a link in its place, which would be written through.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o666))
        try:
            yield partial
            sync(partial)  # before the rename, or a power cut could leave the new name with no content
            partial.replace(path)
            sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str, *, overwrite: bool = True) -> None:
    """Write UTF-8 text to a file, whole or not at all."""
    with atomic_file(path, overwrite=overwrite) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: str | os.PathLike[str], values: Any) -> None:
    """Write values to a file as indented JSON, whole or not at all."""
    write_text(path, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def atomic_folder(target: str | os.PathLike[str], *, overwrite: bool = False, marker: Marker | None = None) -> Iterator[Path]:
    """Fill a folder that appears under its name only once it is complete and on disk; by one process at a time.

    Yields a folder next to the target, which is removed if the block raises; folders above it are made. Raises BusyError if
    another process goes on writing the same folder for more than `WAIT` seconds.
    """
    require_free_folder(target, overwrite=overwrite, marker=marker)
    # The real path: two names of one folder share one lock, and renaming works on the folder, not on a link to it.
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    with Lock(target, wait=WAIT):
        recover_interrupted_replace(target)
        require_free_folder(target, overwrite=overwrite, marker=marker)
        partial = hidden(target, "new")
        shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
        partial.mkdir()
        try:
            yield partial
            sync_all(partial)
            replace_folder(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def replace_folder(partial: Path, target: Path) -> None:
    """Give a finished folder its name. A folder of that name is set aside first, and put back if this fails."""
    recover_interrupted_replace(target)
    if target.exists():
        target.rename(backup_path(target))
    try:
        partial.rename(target)
        sync(target.parent)  # the old folder is deleted only after the new name is on disk
    finally:
        recover_interrupted_replace(target)


def recover_interrupted_replace(target: Path) -> None:
    """Clean up after a crash inside `replace_folder`: restore the old folder, or delete it if the new one is in place."""
    old, rubbish = backup_path(target), hidden(target, "rubbish")
    shutil.rmtree(rubbish, ignore_errors=True)
    if not old.exists():
        return
    if target.exists():
        old.rename(rubbish)  # first, so that what is deleted by half is never restored
        shutil.rmtree(rubbish, ignore_errors=True)
    else:
        old.rename(target)


def recover_folder(target: Path) -> None:
    """Restore a folder that a killed process had set aside; called before a folder is read or looked for."""
    target = Path(os.path.realpath(target))
    if not target.exists() and backup_path(target).exists():
        with Lock(target, wait=WAIT):
            recover_interrupted_replace(target)


@contextmanager
def atomic_files(folder: Path, name: str) -> Iterator[Path]:
    """Write several files into a folder that has other files too: all of them or none; by one process at a time.

    Yields a folder whose files get the same relative names in `folder`; `name`, which describes the others, comes last.
    """
    with Lock(folder / name, wait=WAIT):
        complete, partial = hidden(folder / name, "complete"), hidden(folder / name, "new")
        _move_files(complete, folder, name)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            sync_all(partial)
            partial.rename(complete)  # from here on, the new files count: whoever comes next moves them
            sync(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        _move_files(complete, folder, name)


def recover_files(folder: Path, name: str) -> None:
    """Put in place what a process completed inside `atomic_files` before it was killed; called before the files are read."""
    complete = hidden(folder / name, "complete")
    if complete.exists() and not complete.is_symlink():
        with Lock(folder / name, wait=WAIT):
            _move_files(complete, folder, name)


def _move_files(complete: Path, folder: Path, last: str) -> None:
    paths = [path for path in complete.rglob("*") if path.is_file()] if complete.is_dir() and not complete.is_symlink() else []
    for path in sorted(paths, key=lambda path: path == complete / last):
        target = folder / path.relative_to(complete)
        target.parent.mkdir(exist_ok=True)
        path.replace(target)
        sync(target.parent)
    shutil.rmtree(complete, ignore_errors=True)


def backup_path(target: Path) -> Path:
    """The name that an old folder has while a new one takes its place."""
    return hidden(target, "old")


def hidden(target: Path, what: str) -> Path:
    """A name next to a file or folder for what is not visible yet, or not any more.

    `what` is `new` while it is written, `complete` or `old` while it is replaced, `rubbish` while it is deleted.
    """
    return target.with_name(f".{target.name}.theodolite-{what}")


class Lock:
    """The sole right to write to `target`, until it is released or the process ends, however it ends.

    The kernel keeps the lock (`flock`), so a killed process leaves none behind and no process number has to be trusted; the
    number in the file is only for the error message. Waits for another process for `wait` seconds (`math.inf`: until it ends),
    then raises a BusyError that names it. On a disk that cannot lock files, `required=False` locks nothing, and `held` is False.
    """

    def __init__(self, target: Path, *, wait: float = 0.0, required: bool = True) -> None:
        self.path = target.with_name(f".{target.name}.lock")
        deadline = time.monotonic() + wait
        while True:
            try:
                self._handle = _acquire(self.path, target, required=required)
                break
            except BusyError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(0.02)
        self._holder = os.getpid()

    @property
    def held(self) -> bool:
        """Whether the lock is ours."""
        return self._handle is not None

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let others write; releasing twice does nothing."""
        if self._handle is None:
            return
        try:
            if os.getpid() == self._holder:  # a forked child has the handle too, but must not give up its parent's lock
                self.path.unlink(missing_ok=True)  # before the lock opens: whoever holds this file next sees that it is gone
        finally:
            os.close(self._handle)
            self._handle = None


def _acquire(path: Path, target: Path, *, required: bool) -> int | None:
    import fcntl  # Unix only

    while True:
        handle = _open_lock(path)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise BusyError(f"process {holder} is writing to {target}; wait until it ends, or choose another name") from None
        except OSError as error:
            os.close(handle)
            if not required and error.errno in (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK):
                path.unlink(missing_ok=True)
                return None
            raise OSError(f"{target.parent} cannot lock files ({error}); write to a local disk, then move the folder") from error
        # The holder before us may have removed the file after we opened it: the lock is then on a file that no one else finds.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.lstat()):
                with suppress(OSError):  # a full disk: the lock holds without the number too
                    os.ftruncate(handle, 0)
                    os.write(handle, f"{os.getpid()}\n".encode())
                return handle
        os.close(handle)


def _open_lock(path: Path) -> int:
    """The file of a lock, made if it is not there; never through a link, and never a file that is something else."""
    other = f"{path} is not a lock file of this program; move it away, or choose another name"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError:
        if path.is_symlink():
            raise FileExistsError(other) from None
        raise
    state = os.fstat(handle)
    # It is written over, and deleted in the end.
    if stat.S_ISREG(state.st_mode) and state.st_nlink <= 1 and re.fullmatch(rb"[0-9]{0,31}\n?", os.pread(handle, 33, 0)):
        return handle
    os.close(handle)
    raise FileExistsError(other)
