"""What a result was found on."""

from __future__ import annotations

import datetime as dt
import os
import platform
import subprocess
from pathlib import Path

import psutil

from penstock.testing import server


def seen() -> dict[str, object]:
    """The machine, its load at the start, and the versions of everything."""
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": _said("git", "describe", "--always", "--dirty"),
        "postgresql": _said(server.any_binaries().program("postgres"), "--version").split()[-1],
        "python": platform.python_version(),
        "kernel": platform.release(),
        "cpus": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "load": [round(value, 2) for value in os.getloadavg()],
    }


def _said(*command: str) -> str:
    folder = Path(__file__).parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
