"""One server, many processes: which of them may start it, and which must stop it.

Two kernel locks say everything, and the kernel lets go of them however a process ends, so no list
of pids can go stale.  Every process that uses the server holds `users.lock` shared; a process that
can take it alone is the last.  `lifecycle.lock` is held alone during a start or a stop.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from penstock.embedded.folder import unusable
from penstock.errors import FolderBusy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from pathlib import Path

    from penstock.embedded.folder import Folder

_RETRY_SECONDS = 0.05


@contextmanager
def share(
    place: Folder, patience: timedelta, start: Callable[[], None], stop: Callable[[], None]
) -> Iterator[None]:
    """Use the server in the block: start it if it does not run, stop it after the last user."""
    me = os.getpid()
    with _opened(place, place.users_lock) as users:
        with _alone(place, patience):
            start()
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield
        finally:
            # A forked child has our lock in common with us, and leaves it to us.
            if os.getpid() == me:
                _leave(place, patience, users, stop)


def _leave(place: Folder, patience: timedelta, users: int, stop: Callable[[], None]) -> None:
    with _alone(place, patience):
        if _try_alone(users):
            stop()


@contextmanager
def _alone(place: Folder, patience: timedelta) -> Iterator[None]:
    with _opened(place, place.lifecycle_lock) as lock:
        _wait_for(lock, place, patience)
        _write_pid(lock)
        yield


def _wait_for(lock: int, place: Folder, patience: timedelta) -> None:
    # A holder may itself wait for the server as long as we are willing to, hence twice.
    deadline = time.monotonic() + 2 * patience.total_seconds()
    while not _try_alone(lock):
        if time.monotonic() > deadline:
            raise _busy(place)
        time.sleep(_RETRY_SECONDS)


def _try_alone(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _opened(place: Folder, path: Path) -> Iterator[int]:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise unusable(place, exc) from exc
    try:
        yield lock
    finally:
        os.close(lock)


def _write_pid(lock: int) -> None:
    # Only for the error message of a process that waits in vain; a full disk must not stop us.
    with suppress(OSError):
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _busy(place: Folder) -> FolderBusy:
    holder = "another process"
    with suppress(OSError):
        holder = f"process {place.lifecycle_lock.read_text(encoding='utf-8').strip()}"
    return FolderBusy(
        f"{holder} has been starting or stopping the server in {place.root} for too long\n"
        "Wait for it or end it; its lock goes away with it.",
        folder=place.root,
    )
