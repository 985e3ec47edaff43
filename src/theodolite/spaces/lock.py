"""One writer at a time: a lock file that names its holder, and that the death of the holder opens."""

from __future__ import annotations

import os
from pathlib import Path


class BusyError(OSError):
    """Another process is writing to the same place."""


class Lock:
    """The sole right to write to `target`, until it is released or the process ends, however it ends.

    The kernel keeps the lock (`flock`), so a killed process leaves none behind and no process number has to be trusted; the
    number in the file is there for the error message.
    """

    def __init__(self, target: Path) -> None:
        self.path = target.with_name(f".{target.name}.lock")
        self._handle: int | None = _acquire(self.path, target)
        self._holder = os.getpid()

    def release(self) -> None:
        """Let others write; releasing twice is harmless."""
        if self._handle is None:
            return
        if os.getpid() == self._holder:  # a forked child has the handle too, but the lock is not its to give up
            self.path.unlink(missing_ok=True)  # before it opens: whoever gets this file next sees that it is gone
        os.close(self._handle)
        self._handle = None


def _acquire(path: Path, target: Path) -> int:
    import fcntl  # only Unix has it

    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode(errors="replace").strip() or "unknown"
            os.close(handle)
            raise BusyError(f"process {holder} is writing to {target}; wait until it is done, or choose another folder") from None
        except OSError as error:
            os.close(handle)
            raise OSError(f"{target.parent} cannot lock files ({error}); write to a local disk, then move the folder") from error
        if _is_at(handle, path):
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            return handle
        os.close(handle)  # its holder finished and removed the file before we got it: make a new one


def _is_at(handle: int, path: Path) -> bool:
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), found)
