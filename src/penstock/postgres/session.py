"""What every session of ours has, decided without I/O.

Its connection has keepalives, timeouts and a name, and its settings are those that the engine and
psycopg rely on.  `ConnectGate` limits how often a client tries to connect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.backoff import backoff
from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from datetime import timedelta

    from psycopg.pq.abc import PGconn

    from penstock.settings import Settings

# The kernel notices within 15 s that a peer is gone.
_KEEPALIVES = {
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}

# A database or a role may have defaults of its own.  psycopg reads dates and intervals in these
# styles only, and the engine's functions need plain backslashes in texts.
_STYLES = {
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "standard_conforming_strings": "on",
}
# The engine has to see what others commit meanwhile.
_ISOLATION = "set default_transaction_isolation = 'read committed'"
POOLED_DEFAULTS = {
    "default_transaction_isolation": "read committed",
    # pgbouncer carries this one from version 1.20 on.
    "intervalstyle": "postgres",
}

_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 5.0


def session_statements(server: PGconn, *, pooler: bool) -> list[str]:
    """What to send on a new connection, so that its session is as Penstock needs it.

    The server reports the styles when it accepts a connection, so only those that differ are set.
    It does not report the isolation level.  Behind a pooler that one is not set: it would stay in a
    server session that serves others next.
    """
    statements = [
        f"set {name} = '{wanted}'"
        for name, wanted in _STYLES.items()
        if not (server.parameter_status(name.encode()) or b"").startswith(wanted.encode())
    ]
    return statements if pooler else [*statements, _ISOLATION]


def with_defaults(dsn: str, settings: Settings) -> str:
    """The DSN with what it leaves open; what it says itself stays."""
    defaults: dict[str, str | int] = {
        "application_name": settings.application_name,
        "connect_timeout": max(2, round(settings.connect_timeout.total_seconds())),
        **_KEEPALIVES,
    }
    given = conninfo_to_dict(dsn)
    return make_conninfo(
        dsn, **{name: value for name, value in defaults.items() if name not in given}
    )


def require_pooled_default(name: str, found: str) -> None:
    """Raise unless a setting that a pooler can't change for us is as Penstock needs it."""
    wanted = POOLED_DEFAULTS[name]
    if found != wanted:
        raise InvalidSetting(
            f"{name} is {found!r} by default, and a pooler in transaction mode can't change it for "
            f"Penstock alone: run ALTER ROLE … SET {name} = '{wanted}' for the role of Penstock"
        )


class ConnectGate:
    """Shared by the pools and the listener of one client.

    A server that is full has to start a process to refuse a connection.  Many clients that
    try again and again cost it more than those it serves.  So after a failure the client makes
    no attempt for a while, each time for longer, and not in step with other clients.
    """

    def __init__(self) -> None:
        self.failures = 0
        """Attempts that failed since the last that did not."""
        self._open_at = float("-inf")

    def is_open(self, now: float) -> bool:
        """Whether the next attempt may be made."""
        return now >= self._open_at

    def failed(self, now: float) -> None:
        """Count a failed attempt; those that were made at the same time count as one."""
        if self.is_open(now):
            self.failures += 1
            self._open_at = now + backoff(self.failures, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE)

    def succeeded(self) -> None:
        """The server takes connections."""
        self.failures = 0
        """Attempts that failed since the last that did not."""
        self._open_at = float("-inf")


# Listening


@dataclass(frozen=True, slots=True)
class ListenerTimes:
    """The listener's times, in seconds."""

    heartbeat: float = 5.0
    """Ask after this much silence."""
    patience: float = 5.0
    """An answer later than this never comes: together a dead line is noticed within 15 s."""
    first_delay: float = 1.0
    """Before the first attempt to connect again; doubles with each that fails."""
    longest_delay: float = 30.0


def listener_times(heartbeat: timedelta) -> ListenerTimes:
    """The times that belong to a heartbeat: an answer may take as long again."""
    return ListenerTimes(heartbeat.total_seconds(), heartbeat.total_seconds())


class Reach(Enum):
    """Can this watch be woken?"""

    NOT_YET = "not yet"
    """The line is being made, or was lost: poll meanwhile."""
    HEARING = "hearing"
    DEAF = "deaf"
    """A pooler stands in between and hands sessions around, so LISTEN can't be relied on."""
