"""The content of `postmaster.pid`, and whether that server runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil
from psycopg import pq
from psycopg.conninfo import make_conninfo

USER = DATABASE = "penstock"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server as its pid file describes it."""

    pid: int
    port: int
    socket_dir: Path


def read(cluster: Path) -> Postmaster | None:
    """The server that the pid file describes; None without a complete file."""
    try:
        lines = (cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    # 1 pid, 2 data directory, 3 start time, 4 port, 5 socket directory, then what we don't need.
    match lines:
        case [pid, _, _, port, socket_dir, *_] if pid.isdigit() and port.isdigit() and socket_dir:
            return Postmaster(int(pid), int(port), Path(socket_dir))
        case _:
            return None


def pid_in(cluster: Path) -> int | None:
    """The pid alone, which the file has from its first moment on."""
    try:
        first = (cluster / "postmaster.pid").read_text(encoding="utf-8").partition("\n")[0].strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return int(first) if first.isdigit() else None


def is_alive(pid: int, cluster: Path) -> bool:
    """Whether that process is the server of this very cluster, and not a later user of its pid."""
    try:
        process = psutil.Process(pid)
        # A postmaster works inside its data directory.
        at_home = Path(process.cwd()) == cluster.resolve()
        return at_home and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, FileNotFoundError):
        return False


def answers(postmaster: Postmaster) -> bool:
    """Whether the server takes connections now."""
    return pq.PGconn.ping(conninfo(postmaster).encode()) == pq.Ping.OK


def conninfo(postmaster: Postmaster) -> str:
    """A DSN of the server for libpq, with a short timeout."""
    return make_conninfo(
        host=str(postmaster.socket_dir),
        port=postmaster.port,
        user=USER,
        dbname=DATABASE,
        connect_timeout=5,
    )
