"""Connections, and running calls on them: again and again where that is safe."""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from penstock import errors
from penstock.client import foreign, liveness, retrying
from penstock.client._async.concurrency import monotonic, sleep
from penstock.client.iterating import in_thread_async
from penstock.client.preparing import prepare
from penstock.observe import Event, Name, emit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.client.calls import Call
    from penstock.settings import Settings

T = TypeVar("T")
Pool = AsyncConnectionPool[AsyncConnection[Any]]

# The pool's own attempts slow down as they fail; a call that still wants one starts afresh.
_POOL_PATIENCE = 5.0
# Which function of the server warns has a name that no translation changes.
_STANDBY_WAIT = "SyncRepWaitForLSN"


class Database:
    """Two pools: one whose commits are durable, and a small one for claims, whose need not be.

    A claim that a crash of the server undoes is handed out again, as if it had ended.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._closing = ExitStack()
        self._durable: Pool | None = None
        self._claims: Pool | None = None
        self._unconfirmed: set[int] = set()
        self.dsn: str | None = None
        """Where the server is; known once the database is open."""

    async def open(self) -> None:
        """Find the server, see that its engine fits, and open the pools."""
        if self._durable is not None:
            return
        self.dsn = await in_thread_async(partial(prepare, self.settings, self._closing))
        try:
            self._durable = self._pool(self.settings.pool_size, self._configure)
            self._claims = self._pool(self.settings.claim_pool_size, self._configure_claims)
            await self._durable.open()
            await self._claims.open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close every connection, and leave the embedded server."""
        pools = (self._durable, self._claims)
        self._durable = self._claims = None
        for pool in pools:
            if pool is not None:
                await pool.close()
        await in_thread_async(self._closing.close)

    async def run(self, call: Call[T], *, connection: Any = None) -> T:
        """Run a call in a transaction of its own, or in the one open on the given connection."""
        if connection is not None:
            return await foreign.run_async(connection, call)
        return await self._persist(self._opened(self._durable), call)

    async def claim(self, call: Call[T]) -> T:
        """Run a call that need not survive a crash of the server."""
        return await self._persist(self._opened(self._claims), call)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection in a transaction, which the end of the block commits."""
        async with self._borrowed() as connection:
            transaction = connection.transaction()
            await transaction.__aenter__()
            try:
                yield connection
            except BaseException as problem:
                if not await transaction.__aexit__(type(problem), problem, problem.__traceback__):
                    raise
                return
            try:
                await transaction.__aexit__(None, None, None)
            except psycopg.Error as problem:
                raise retrying.final(retrying.classify(problem)) from problem
            self._require_confirmed(connection)

    async def dedicated(self) -> AsyncConnection[Any]:
        """A connection of the caller's own, outside the pools, in autocommit mode."""
        self._opened(self._durable)
        assert self.dsn is not None
        with errors.translated():
            return await AsyncConnection.connect(self.dsn, autocommit=True)

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection of the durable pool, waiting for one as long as calls do."""
        pool = self._opened(self._durable)
        end = monotonic() + self.settings.retry_for.total_seconds()
        while True:
            try:
                connection = await pool.getconn(self._patience)
            except psycopg.Error as problem:
                fault = retrying.classify(problem, sent=False)
                if monotonic() > end:
                    raise fault.error from problem
            else:
                break
        try:
            yield connection
        finally:
            await pool.putconn(connection)

    async def _persist(self, pool: Pool, call: Call[T]) -> T:
        end = monotonic() + self.settings.retry_for.total_seconds()
        attempt = 0
        while True:
            sent = False
            try:
                async with pool.connection(self._patience) as connection:
                    sent = True
                    return await self._send(connection, call, is_claim=pool is self._claims)
            except (psycopg.Error, errors.PenstockError) as problem:
                fault, cause = retrying.classify(problem, sent=sent), problem
            attempt += 1
            pause = retrying.pause(fault, attempt)
            kind = type(fault.error).__name__
            if not retrying.may_repeat(fault, call.repeat) or monotonic() + pause > end:
                emit(Event(Name.CALL_FAILED, error_kind=kind))
                raise retrying.final(fault, call.repeat) from cause
            emit(Event(Name.CALL_RETRIED, attempt=attempt, seconds=pause, error_kind=kind))
            if fault.kind is retrying.Kind.CONNECTION_LOST:
                call = call.again or call
            await sleep(pause)

    async def _send(self, connection: AsyncConnection[Any], call: Call[T], *, is_claim: bool) -> T:
        try:
            if is_claim and self.settings.pooler:
                return await self._send_without_session(connection, call)
            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(call.sql, call.parameters)
                rows = await cursor.fetchall()
        except psycopg.Error as problem:
            if retrying.classify(problem).spoils_connection:
                await connection.close()
            raise
        self._require_confirmed(connection)
        return call.read(rows)

    async def _send_without_session(self, connection: AsyncConnection[Any], call: Call[T]) -> T:
        """A claim through a pooler, where a setting lasts for one transaction only."""
        async with connection.pipeline(), connection.transaction():
            await connection.execute("set local synchronous_commit = off")
            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(call.sql, call.parameters)
                return call.read(await cursor.fetchall())

    def _require_confirmed(self, connection: AsyncConnection[Any]) -> None:
        if id(connection) in self._unconfirmed:
            self._unconfirmed.discard(id(connection))
            raise errors.OutcomeUnknown(
                "the wait for the synchronous standby was cut short: the call was carried out on "
                "this server, but a fail-over may lose it.\n"
                "Look at the standby (pg_stat_replication) before you rely on it."
            )

    def _pool(self, size: int, configure: Any) -> Pool:
        assert self.dsn is not None
        return AsyncConnectionPool(
            self.dsn,
            kwargs=self._connection_options(),
            # A process that never claims, or never publishes, holds no connection for it.
            min_size=0,
            max_size=size,
            timeout=self._patience,
            reconnect_timeout=_POOL_PATIENCE,
            configure=configure,
            check=_check,
            open=False,
        )

    def _connection_options(self) -> dict[str, Any]:
        return {"autocommit": True} | ({"prepare_threshold": None} if self.settings.pooler else {})

    async def _configure(self, connection: AsyncConnection[Any]) -> None:
        # A connection that lies where a closed one lay must not inherit its mark.
        self._unconfirmed.discard(id(connection))
        connection.add_notice_handler(partial(self._notice, id(connection)))

    async def _configure_claims(self, connection: AsyncConnection[Any]) -> None:
        await self._configure(connection)
        if not self.settings.pooler:
            await connection.execute("set synchronous_commit = off")

    def _notice(self, connection: int, diagnosis: psycopg.errors.Diagnostic) -> None:
        if diagnosis.source_function == _STANDBY_WAIT:
            self._unconfirmed.add(connection)

    def _opened(self, pool: Pool | None) -> Pool:
        if pool is None:
            raise errors.DatabaseUnavailable(
                "the client is not open: use `async with connect() as mq`, or `await mq.open()`"
            )
        return pool

    @property
    def _patience(self) -> float:
        return min(_POOL_PATIENCE, self.settings.connect_timeout.total_seconds())


async def _check(connection: AsyncConnection[Any]) -> None:
    liveness.check(connection)
