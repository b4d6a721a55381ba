"""One connection to a server, which has to answer in time."""

from __future__ import annotations

import select
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import tuple_row

from penstock.errors import translated
from penstock.postgres._async.concurrency import Cancelled, cancellations, monotonic
from penstock.postgres.faults import CANCEL_SECONDS, Overdue, StandbyCheck, Trust, until
from penstock.postgres.session import session_statements, with_defaults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.abc import PQGen

    from penstock.settings import Settings

T = TypeVar("T")

# The server's last message and the end of the stream may arrive one after the other.
_LOOKS = 3


class TimedConnection(AsyncConnection[Any]):
    """As psycopg's, with a limit to the silence after each request."""

    answer_within: float | None = None
    """Seconds; None: for as long as it takes, such as the caller's own statements."""
    trust = Trust()
    """Shared by the connections of a pool, and never ended for one outside."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made_at = monotonic()
        self.standby = StandbyCheck(self)

    @contextmanager
    def answering(self, seconds: float | None) -> Iterator[None]:
        """Another limit for the requests of a block."""
        before, self.answer_within = self.answer_within, seconds
        try:
            yield
        finally:
            self.answer_within = before

    async def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Carry on the conversation to its end, or to the deadline."""
        seconds = self.answer_within
        if seconds is None:
            return await super().wait(gen, *args, **options)
        before = cancellations()

        def is_cancelled() -> bool:
            return cancellations() > before

        try:
            timed = until(gen, monotonic() + seconds, seconds, self.trust, is_cancelled)
            return await super().wait(timed, *args, **options)
        except Overdue as overdue:
            if is_cancelled():
                self.pgconn.finish()
                raise Cancelled from overdue
            return await self._cut_short(gen, overdue.seconds)

    async def _cut_short(self, gen: PQGen[T], seconds: float) -> T:
        """Ask the server to give up.  What it says to that is the truth; silence tells nothing."""
        deadline = monotonic() + 2 * CANCEL_SECONDS
        # Its own limit alone applies from here on: the trust may have ended already.
        trust = Trust()
        with suppress(psycopg.Error, OSError):
            await self.cancel_safe(timeout=CANCEL_SECONDS)
        try:
            return await super().wait(until(gen, deadline, seconds, trust, lambda: False))
        except psycopg.errors.QueryCanceled as problem:
            raise Overdue(seconds, undone=True) from problem
        except Overdue:
            self.pgconn.finish()
            raise

    def require_alive(self) -> None:
        """Raise OperationalError if the server has closed the connection; no round trip.

        An idle connection has nothing to read.  If it has, the server closes it, and a call sent
        now would end without an answer, though nothing was wrong with it.
        """
        for _ in range(_LOOKS):
            if not self._readable():
                return
            self.pgconn.consume_input()
        if self.pgconn.status != psycopg.pq.ConnStatus.OK:
            raise psycopg.OperationalError("the server closed the connection")

    def _readable(self) -> bool:
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(0))


async def connect(
    settings: Settings, *, autocommit: bool = True, row_factory: Any = tuple_row
) -> TimedConnection:
    """One connection outside any pool, which the caller closes; errors are Penstock's."""
    assert settings.dsn is not None
    with translated():
        connection = await TimedConnection.connect(
            with_defaults(settings.dsn, settings),
            row_factory=row_factory,
            **connect_options(settings),
        )
        try:
            await begin_session(connection, settings)
            await connection.set_autocommit(autocommit)
        except BaseException:
            await connection.close()
            raise
    return connection


def connect_options(settings: Settings) -> dict[str, Any]:
    """What psycopg is told of every connection."""
    # A prepared statement stays with a session, and behind a pooler the next is another.
    return {"autocommit": True} | ({"prepare_threshold": None} if settings.pooler else {})


async def begin_session(connection: TimedConnection, settings: Settings, *more: str) -> None:
    """Limit the server's silence, and set what Penstock relies on; `more`: statements besides."""
    connection.answer_within = settings.call_timeout.total_seconds()
    statements = session_statements(connection.pgconn, pooler=settings.pooler)
    if words := "; ".join([*statements, *more]):
        await connection.execute(words.encode())
