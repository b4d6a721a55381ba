"""What every connection of ours has: keepalives, timeouts, a name, and known session settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from penstock.errors import InvalidSetting

if TYPE_CHECKING:
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


POOLED_DEFAULTS = {
    "default_transaction_isolation": "read committed",
    # pgbouncer carries this one from version 1.20 on.
    "intervalstyle": "postgres",
}


def require_pooled_default(name: str, found: str) -> None:
    """Raise unless a setting that a pooler can't change for us is as Penstock needs it."""
    wanted = POOLED_DEFAULTS[name]
    if found != wanted:
        raise InvalidSetting(
            f"{name} is {found!r} by default, and a pooler in transaction mode can't change it for "
            f"Penstock alone: run ALTER ROLE … SET {name} = '{wanted}' for the role of Penstock"
        )
