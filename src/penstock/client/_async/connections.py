"""The pools: how connections are made, lent and looked after."""

from __future__ import annotations

import weakref
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool

from penstock import errors
from penstock.client import liveness
from penstock.client._async.concurrency import home, monotonic
from penstock.client._async.session import Session
from penstock.client.iterating import in_thread_async
from penstock.client.payloads import loads
from penstock.client.preparing import prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg.errors import Diagnostic

    from penstock.settings import Settings

Pool = AsyncConnectionPool[Session]

# The pool's own attempts slow down as they fail; a call that still wants one starts afresh.
_PATIENCE = 5.0
# Which function of the server warns has a name that no translation changes.
_STANDBY_WAIT = "SyncRepWaitForLSN"


class Connections:
    """Two pools: one whose commits are durable, and a small one for claims, whose need not be.

    A claim that a crash of the server undoes is handed out again, as if it had ended.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closing = ExitStack()
        # A program that ends without closing leaves the embedded server all the same.
        weakref.finalize(self, self._closing.close)
        self._durable: Pool | None = None
        self._claims: Pool | None = None
        self._home: object = None
        self._unconfirmed: set[int] = set()
        self.patience = min(_PATIENCE, settings.connect_timeout.total_seconds())
        """Seconds that one attempt to borrow a connection may take."""
        self.dsn: str | None = None

    @property
    def is_open(self) -> bool:
        return self._durable is not None

    @property
    def durable(self) -> Pool:
        return self._opened(self._durable)

    @property
    def claims(self) -> Pool:
        return self._opened(self._claims)

    async def open(self) -> None:
        """Find the server, see that its engine fits, and open the pools."""
        if self._durable is not None:
            return
        self._home = home()
        try:
            self.dsn = await in_thread_async(partial(prepare, self._settings, self._closing))
            self._durable = self._pool(self._settings.pool_size, self._configure)
            self._claims = self._pool(self._settings.claim_pool_size, self._configure_claims)
            await self._durable.open()
            await self._claims.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection, and leave the embedded server."""
        pools = (self._durable, self._claims)
        self._durable = self._claims = None
        try:
            if any(pools):
                self._require_home()
            for pool in pools:
                if pool is not None:
                    await pool.close()
        finally:
            await in_thread_async(self._closing.close)

    async def borrow(self, pool: Pool) -> Session:
        """A connection that the server has not closed while it was idle.

        After a restart of the server all idle connections are dead.  They are passed over at once:
        the pool's own check would wait between two of them, longer each time.
        """
        end = monotonic() + self.patience
        while True:
            connection = await pool.getconn(max(0.0, end - monotonic()))
            try:
                liveness.check(connection)
            except psycopg.Error:
                await pool.putconn(connection)
            else:
                return connection

    @asynccontextmanager
    async def lent(self, pool: Pool) -> AsyncIterator[Session]:
        """Such a connection, for as long as the block lasts."""
        connection = await self.borrow(pool)
        try:
            async with connection:
                yield connection
        finally:
            await pool.putconn(connection)

    async def dedicated(self) -> Session:
        """A connection outside the pools, which the caller closes."""
        self._opened(self._durable)
        assert self.dsn is not None
        with errors.translated():
            return await Session.connect(self.dsn, **self._options())

    def require_confirmed(self, connection: Session) -> None:
        """Raise if the last commit on it was not confirmed by the standby it had to wait for."""
        if id(connection) in self._unconfirmed:
            self._unconfirmed.discard(id(connection))
            raise errors.OutcomeUnknown(
                "the wait for the synchronous standby was cut short: the call was carried out on "
                "this server, but a fail-over may lose it.\n"
                "Look at the standby (pg_stat_replication) before you rely on it."
            )

    def _opened(self, pool: Pool | None) -> Pool:
        if pool is None:
            raise errors.ClientClosed(
                "the client is not open: use `async with connect() as mq`, or `await mq.open()`"
            )
        self._require_home()
        return pool

    def _require_home(self) -> None:
        if home() is not self._home:
            raise errors.ClientClosed(
                "the client was opened in another event loop, and its connections belong to that: "
                "open, use and close it within one asyncio.run()"
            )

    def _pool(self, size: int, configure: Any) -> Pool:
        assert self.dsn is not None
        return AsyncConnectionPool(
            self.dsn,
            connection_class=Session,
            kwargs=self._options(),
            # A process that never claims, or never publishes, holds no connection for it.
            min_size=0,
            max_size=size,
            timeout=self.patience,
            reconnect_timeout=_PATIENCE,
            configure=configure,
            open=False,
        )

    def _options(self) -> dict[str, Any]:
        # A prepared statement stays with a session, and behind a pooler the next is another.
        return {"autocommit": True} | ({"prepare_threshold": None} if self._settings.pooler else {})

    async def _configure(self, connection: Session) -> None:
        connection.answer_within = self._settings.call_timeout.total_seconds()
        set_json_loads(loads, connection)
        # A connection that lies where a closed one lay must not inherit its mark.
        self._unconfirmed.discard(id(connection))
        connection.add_notice_handler(partial(self._notice, id(connection)))

    async def _configure_claims(self, connection: Session) -> None:
        await self._configure(connection)
        if not self._settings.pooler:
            await connection.execute("set synchronous_commit = off")

    def _notice(self, connection: int, diagnosis: Diagnostic) -> None:
        if diagnosis.source_function == _STANDBY_WAIT:
            self._unconfirmed.add(connection)
