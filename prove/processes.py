"""Killing a process together with everything it started."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import subprocess

_END_SECONDS = 20


def kill_family(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for a process and its descendants; returns when all have ended.

    The process is stopped before the listing, so that it can't start one that is not listed.
    A descendant that ends by itself between the listing and its kill is passed over.
    """
    if process.poll() is not None:
        return
    root = psutil.Process(process.pid)
    root.suspend()
    descendants = root.children(recursive=True)
    process.kill()
    for each in descendants:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()
    deadline = time.monotonic() + _END_SECONDS
    while any(map(_runs, descendants)) and time.monotonic() < deadline:
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    """One that has ended and that no parent has waited for yet does not count."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
