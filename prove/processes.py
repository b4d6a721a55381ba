"""Killing a process together with everything it started."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import subprocess


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
    psutil.wait_procs(descendants, timeout=20)
