"""Running calls and transactions: again and again where that is safe."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from penstock import errors
from penstock.client import deadlines, foreign, retrying, turns
from penstock.client._async.concurrency import monotonic, sleep
from penstock.client._async.connections import Connections
from penstock.client._async.session import Session
from penstock.client.calls import Repeat
from penstock.client.retrying import Patience
from penstock.observe import Event, Name, emit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from datetime import timedelta

    from psycopg import AsyncConnection

    from penstock.client._async.connections import Pool
    from penstock.client.calls import Call
    from penstock.client.retrying import Fault
    from penstock.settings import Settings

T = TypeVar("T")


class Database:
    """Knows how to send a call and what to do when that fails; nothing of queues."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._connections = Connections(settings)

    @property
    def dsn(self) -> str | None:
        """Where the server is; known once the database is open."""
        return self._connections.dsn

    @property
    def is_open(self) -> bool:
        return self._connections.is_open

    async def open(self) -> None:
        """Find the server and see that its engine fits."""
        await self._connections.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()

    async def dedicated(self) -> Session:
        """A connection of the caller's own, outside the pools, in autocommit mode."""
        return await self._connections.dedicated()

    async def run(
        self, call: Call[T], *, connection: Any = None, retry_for: timedelta | None = None
    ) -> T:
        """Run a call in a transaction of its own, or in the one open on the given connection.

        `retry_for`: for how long it is tried, if not for as long as the settings say.
        """
        if connection is not None:
            with self._limited(connection, call):
                return await foreign.run_async(connection, call)
        return await self._persist(self._connections.durable, call, retry_for)

    async def claim(self, call: Call[T]) -> T:
        """Run a call that need not survive a crash of the server."""
        return await self._persist(self._connections.claims, call)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection in a transaction, which the end of the block commits."""
        pool = self._connections.durable
        connection, transaction = await self._begun(pool)
        try:
            try:
                # What the caller asks for may take as long as it takes.
                with connection.answering(None):
                    yield connection
            except BaseException as problem:
                # The block's own errors go to its caller as they are.
                if not await _rolled_back(transaction, problem):
                    raise
            else:
                await self._commit(connection, transaction)
        finally:
            await pool.putconn(connection)

    async def transact(
        self,
        work: Callable[[AsyncConnection[Any]], Awaitable[T]],
        *,
        repeat: Repeat = Repeat.BEFORE_SENDING,
    ) -> T:
        """Do all of the work in one transaction, from the start again where that is safe.

        What breaks before the commit is undone, so it may always be done again; whether after the
        commit, `repeat` says.
        """
        patience = Patience(self.settings.retry_for, monotonic())
        while True:
            try:
                async with self.transaction() as connection:
                    return await work(connection)
            except (psycopg.Error, errors.PenstockError) as problem:
                fault, cause = retrying.classify(problem, sent=False), problem
            await self._rest(patience, fault, repeat, cause)

    async def _begun(self, pool: Pool) -> tuple[Session, AbstractAsyncContextManager[Any]]:
        """A transaction that has begun, tried for as long as calls are."""
        patience = Patience(self.settings.retry_for, monotonic())
        while True:
            try:
                connection = await self._connections.borrow(pool)
                try:
                    transaction = connection.transaction()
                    await transaction.__aenter__()
                except BaseException:
                    await pool.putconn(connection)
                    raise
                return connection, transaction  # noqa: TRY300
            except psycopg.Error as problem:
                fault, cause = retrying.classify(problem, sent=False), problem
            await self._rest(patience, fault, Repeat.ALWAYS, cause)

    async def _commit(
        self, connection: Session, transaction: AbstractAsyncContextManager[Any]
    ) -> None:
        try:
            await transaction.__aexit__(None, None, None)
        except psycopg.Error as problem:
            raise retrying.final(retrying.classify(problem)) from problem
        self._connections.require_confirmed(connection)

    async def _persist(self, pool: Pool, call: Call[T], retry_for: timedelta | None = None) -> T:
        limit = self.settings.retry_for if retry_for is None else retry_for
        patience = Patience(limit, monotonic())
        while True:
            sent = False
            try:
                async with self._connections.lent(pool) as connection:
                    sent = True
                    return await self._send(
                        connection, call, is_claim=pool is self._connections.claims
                    )
            except UnicodeEncodeError:
                raise errors.unsendable() from None
            except (psycopg.Error, errors.PenstockError) as problem:
                fault, cause = retrying.classify(problem, sent=sent), problem
            await self._rest(patience, fault, call.repeat, cause)
            if fault.kind is retrying.Kind.CONNECTION_LOST:
                call = call.again or call

    async def _rest(
        self, patience: Patience, fault: Fault, repeat: Repeat, cause: Exception
    ) -> None:
        """Wait before the next attempt; raise when there is to be none."""
        pause = patience.pause(fault, repeat, monotonic())
        kind = type(fault.error).__name__
        if pause is None:
            emit(Event(Name.CALL_FAILED, error_kind=kind))
            raise retrying.final(fault, repeat) from cause
        emit(Event(Name.CALL_RETRIED, attempt=patience.failures, seconds=pause, error_kind=kind))
        await sleep(pause)

    def _limited(self, connection: Any, call: Call[T]) -> AbstractContextManager[None]:
        """Limit the call, and no other, in a transaction on a connection of ours."""
        if not isinstance(connection, Session):
            return nullcontext()
        usual = self.settings.call_timeout.total_seconds()
        return connection.answering(deadlines.LASTING_SECONDS if call.lasting else usual)

    async def _send(self, connection: Session, call: Call[T], *, is_claim: bool) -> T:
        if call.lasting:
            with connection.answering(deadlines.LASTING_SECONDS):
                return await self._ask(connection, call, is_claim=is_claim)
        return await self._ask(connection, call, is_claim=is_claim)

    async def _ask(self, connection: Session, call: Call[T], *, is_claim: bool) -> T:
        try:
            with turns.missed(connection, call) as missed:
                if is_claim and self.settings.pooler:
                    return missed(await self._send_without_session(connection, call))
                async with connection.cursor(row_factory=tuple_row) as cursor:
                    await cursor.execute(call.sql, call.parameters)
                    rows = await cursor.fetchall()
        except psycopg.Error as problem:
            if retrying.classify(problem).spoils_connection:
                await connection.close()
            raise
        self._connections.require_confirmed(connection)
        return missed(call.read(rows))

    async def _send_without_session(self, connection: Session, call: Call[T]) -> T:
        """A claim through a pooler, where a setting lasts for one transaction only."""
        async with connection.cursor(row_factory=tuple_row) as cursor:
            async with connection.pipeline(), connection.transaction():
                await connection.execute("set local synchronous_commit = off")
                await cursor.execute(call.sql, call.parameters)
            # Only now: to ask earlier would cost a round trip of its own.
            return call.read(await cursor.fetchall())


async def _rolled_back(
    transaction: AbstractAsyncContextManager[Any], problem: BaseException
) -> bool | None:
    """Undo a transaction; a server that can't be reached any more does so by itself."""
    try:
        return await transaction.__aexit__(type(problem), problem, problem.__traceback__)
    except psycopg.OperationalError:
        return False
