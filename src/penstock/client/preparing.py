"""What happens once, before the first call: find the server, and see that its engine fits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping

from penstock import embedded, schema
from penstock.client._sync.session import Session
from penstock.client.retrying import backoff
from penstock.errors import translate

if TYPE_CHECKING:
    from contextlib import ExitStack

    from penstock.settings import Settings

# A peer that vanished without a word is noticed within 15 s, by the kernel.
_KEEPALIVES = {
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}


def prepare(settings: Settings, closing: ExitStack) -> str:
    """Start the embedded server where no other is named; the answer is the DSN to use."""
    if settings.dsn is not None:
        dsn = with_defaults(settings.dsn, settings)
        _check(dsn, settings)
        return dsn
    server = closing.enter_context(embedded.server(settings=settings))
    dsn = with_defaults(server.dsn, settings)
    with _connected(dsn, settings) as connection:
        # It is ours alone, so its engine follows the package without a word.
        schema.follow(connection)
        schema.check(connection)
    return dsn


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


def _check(dsn: str, settings: Settings) -> None:
    with _connected(dsn, settings) as connection:
        connection.answer_within = settings.call_timeout.total_seconds()
        schema.check(connection)


def _connected(dsn: str, settings: Settings) -> Session:
    """A connection; waits for a server that is starting, but not for one that is not there.

    Nothing has ever worked when this runs, so a wrong name is likelier than an outage, and whoever
    mistyped it wants to hear at once.
    """
    end = time.monotonic() + settings.retry_for.total_seconds()
    attempt = 0
    while True:
        attempt += 1
        try:
            # pgbouncer in transaction mode loses statements prepared in another transaction.
            return Session.connect(dsn, autocommit=True, prepare_threshold=None)
        except psycopg.OperationalError as problem:
            pause = backoff(attempt)
            starting = PGconn.ping(dsn.encode()) == Ping.REJECT
            if not starting or time.monotonic() + pause > end:
                raise translate(problem) from None
        time.sleep(pause)
