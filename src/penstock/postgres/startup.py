"""What happens once, before the first call: find the server, and see that its engine fits."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from psycopg.pq import PGconn, Ping

from penstock import embedded, schema
from penstock.backoff import backoff
from penstock.errors import DatabaseUnavailable
from penstock.postgres._sync.connections import connect
from penstock.postgres.session import POOLED_DEFAULTS, require_pooled_default, with_defaults

if TYPE_CHECKING:
    from contextlib import ExitStack

    from penstock.postgres._sync.connections import TimedConnection
    from penstock.settings import Settings


def prepare(settings: Settings, closing: ExitStack, *, engine: bool = True) -> str:
    """Start the embedded server where no other is named; the answer is the DSN to use.

    `engine`: whether the database must have the engine, which tables of tasks don't need.
    """
    if settings.dsn is not None:
        with _connected(settings.dsn, settings) as connection:
            if engine:
                schema.check(connection)
            if settings.pooler:
                _check_pooled_defaults(connection)
        return with_defaults(settings.dsn, settings)
    server = closing.enter_context(embedded.server(settings=settings))
    with _connected(server.dsn, settings) as connection:
        # The embedded server belongs to this package, so its engine follows the package.
        connection.answer_within = None
        schema.follow(connection)
        schema.check(connection)
    return with_defaults(server.dsn, settings)


def _check_pooled_defaults(connection: TimedConnection) -> None:
    for name in POOLED_DEFAULTS:
        row = connection.execute(
            "select reset_val from pg_settings where lower(name) = %s", (name,)
        ).fetchone()
        assert row is not None
        require_pooled_default(name, row[0])


def _connected(dsn: str, settings: Settings) -> TimedConnection:
    """A connection; waits for a server that is starting, but not for one that is not there.

    No connection has succeeded yet when this runs, so a wrong name is likelier than an outage, and
    the error is raised at once.
    """
    # pgbouncer in transaction mode loses statements prepared in another transaction, and the
    # setting that says so is easily forgotten: this one connection prepares none.
    careful = replace(settings, dsn=dsn, pooler=True)
    end = time.monotonic() + settings.retry_for.total_seconds()
    attempt = 0
    while True:
        attempt += 1
        try:
            return connect(careful)
        except DatabaseUnavailable:
            pause = backoff(attempt)
            # With its timeouts: a server that is silent would be waited for without end.
            starting = PGconn.ping(with_defaults(dsn, settings).encode()) == Ping.REJECT
            if not starting or time.monotonic() + pause > end:
                raise
        time.sleep(pause)
