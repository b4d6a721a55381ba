"""The connection that is listened to: every question on it has a deadline.

psycopg's own calls can't be given up: cancelling one waits for the server's word on it, which a
dead socket never brings.  So this speaks libpq's non-blocking interface, and waits by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import errors, pq

from penstock.client._async.concurrency import Doorbell, monotonic

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.sql import Composed

_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class LineSilent(errors.OperationalError):
    """The server did not answer in time."""


class Line:
    """One open connection, and what has been heard on it."""

    def __init__(
        self, connection: AsyncConnection[Any], doorbell: Doorbell, patience: float
    ) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._encoding = connection.info.encoding
        self._doorbell = doorbell
        self._patience = patience
        self._heard: list[str] = []
        self.heard_at = monotonic()

    async def ask(self, query: str | Composed) -> bytes | None:
        """Send statements and wait for their end; the answer is the last one's first value."""
        deadline = monotonic() + self._patience
        self._pgconn.send_query(self._encoded(query))
        value: bytes | None = None
        while (result := await self._result(deadline)) is not None:
            if result.status in _FAILED:
                raise errors.error_from_result(result, self._encoding)
            value = result.get_value(0, 0) if result.ntuples else None
        self.heard_at = monotonic()
        # Waiting for the answer used up the bell: whoever rang meanwhile must still be heard.
        self._doorbell.ring()
        return value

    async def rest(self, seconds: float) -> None:
        """Wait for news, or for the doorbell."""
        if not self._heard:
            await self._doorbell.wait(self._pgconn.socket, seconds)
            self._read()

    def heard(self) -> list[str]:
        """The channels that were notified since the last call."""
        heard, self._heard = self._heard, []
        return heard

    @property
    def shared(self) -> bool:
        """Whether the session's number is not the server process's: a pooler made it up."""
        return self._number != self._pgconn.backend_pid

    async def identify(self) -> None:
        self._number = int(await self.ask("select pg_backend_pid()") or 0)

    async def close(self) -> None:
        await self._connection.close()

    async def _result(self, deadline: float) -> pq.abc.PGresult | None:
        while True:
            self._pgconn.flush()
            self._read()
            if not self._pgconn.is_busy():
                return self._pgconn.get_result()
            left = deadline - monotonic()
            if left <= 0:
                raise LineSilent("the listening connection does not answer")
            await self._doorbell.wait(self._pgconn.socket, left)

    def _read(self) -> None:
        self._pgconn.consume_input()
        while (note := self._pgconn.notifies()) is not None:
            self._heard.append(note.relname.decode(self._encoding))
            self.heard_at = monotonic()

    def _encoded(self, query: str | Composed) -> bytes:
        if isinstance(query, str):
            return query.encode()
        return query.as_bytes(self._connection)
