"""Running calls and transactions: again and again where that is safe."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from penstock import errors
from penstock.observe import Event, Name, emit
from penstock.postgres import faults, foreign
from penstock.postgres._async.concurrency import monotonic, sleep
from penstock.postgres._async.connections import Pools, TimedConnection
from penstock.postgres.call import Repeat
from penstock.postgres.faults import Patience
from penstock.postgres.startup import prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from datetime import timedelta

    from psycopg import AsyncConnection
    from psycopg.errors import Diagnostic

    from penstock.postgres._async.connections import Pool
    from penstock.postgres.call import Call
    from penstock.postgres.faults import Fault
    from penstock.settings import Settings

T = TypeVar("T")


class _Loan:
    """A connection that a handler shares with what it publishes.

    The loan ends with its block, also for tasks that the handler started and that still run.
    """

    __slots__ = ("connection", "database")

    def __init__(self, database: object, connection: Any) -> None:
        self.database = database
        self.connection: Any = connection


_loan: ContextVar[_Loan | None] = ContextVar("penstock_lent_connection", default=None)


class Database:
    """Knows how to send a call and what to do when that fails; nothing of queues."""

    def __init__(self, settings: Settings, *, engine: bool = True) -> None:
        """`engine`: whether the database must have Penstock's engine."""
        self.settings = settings
        self._pools = Pools(settings, partial(prepare, settings, engine=engine))

    @property
    def dsn(self) -> str | None:
        """Where the server is; known once the database is open."""
        return self._pools.dsn

    @property
    def is_open(self) -> bool:
        return self._pools.is_open

    async def open(self) -> None:
        """Find the server and see that its engine fits."""
        await self._pools.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._pools.close()

    def distrust(self) -> None:
        """The server does not answer: give up the connections that exist now."""
        self._pools.distrust()

    async def dedicated(self) -> TimedConnection:
        """A connection of the caller's own, outside the pools, in autocommit mode."""
        return await self._pools.dedicated()

    async def run(
        self, call: Call[T], *, connection: Any = None, retry_for: timedelta | None = None
    ) -> T:
        """Run a call in a transaction of its own, or in the one open on the given connection.

        `retry_for`: for how long it is tried, if not for as long as the settings say.
        """
        if connection is not None:
            with self._limited(connection, call):
                return await foreign.run_async(connection, call)
        return await self._persist(await self._pools.durable(), call, retry_for)

    @contextmanager
    def lend(self, connection: Any) -> Iterator[None]:
        """What this code publishes in the block joins the transaction on the connection."""
        loan = _Loan(self, connection)
        mark = _loan.set(loan)
        try:
            yield
        finally:
            loan.connection = None
            _loan.reset(mark)

    def lent_connection(self) -> Any:
        """The connection that was lent to this code; None: none was."""
        loan = _loan.get()
        return loan.connection if loan is not None and loan.database is self else None

    async def claim(self, call: Call[T]) -> T:
        """Run a call that need not survive a crash of the server."""
        return await self._persist(await self._pools.claims(), call)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection[Any]]:
        """A connection in a transaction, which the end of the block commits."""
        pool = await self._pools.durable()
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
                fault, cause = faults.classify(problem, sent=False), problem
            await rest(patience, fault, repeat, cause)

    async def run_session(
        self,
        work: Callable[[TimedConnection, bool], Awaitable[T]],
        *,
        atomic: bool,
        lasting: bool = False,
    ) -> T:
        """Do work of several statements on one connection, again where that may help.

        `atomic`: in one transaction; otherwise each statement is committed by itself.  The work
        itself must be safe to repeat: it is told whether an earlier run may have been committed.
        Each of its statements has the call timeout, or an hour if they are `lasting`.
        """
        pool = await self._pools.durable()
        patience = Patience(self.settings.retry_for, monotonic())
        usual = self.settings.call_timeout.total_seconds()
        limit = faults.LASTING_SECONDS if lasting else usual
        unknown = False
        while True:
            sent = False
            try:
                async with self._in_use(pool, limit) as connection:
                    if atomic:
                        async with connection.transaction():
                            done = await work(connection, unknown)
                            # What breaks from here on may have been committed.
                            sent = True
                    else:
                        sent = True
                        done = await work(connection, unknown)
                    connection.standby.require_confirmed()
                    return done
            except UnicodeEncodeError:
                raise errors.unsendable() from None
            except psycopg.Error as problem:
                fault, cause = faults.classify(problem, sent=sent), problem
            await rest(patience, fault, Repeat.ALWAYS, cause)
            unknown |= fault.kind is faults.Kind.CONNECTION_LOST

    @asynccontextmanager
    async def _in_use(self, pool: Pool, limit: float) -> AsyncIterator[TimedConnection]:
        """A connection of the pool, which is closed if an error shows that it is of no use."""
        async with self._pools.lent(pool) as connection:
            try:
                with connection.answering(limit):
                    yield connection
            except psycopg.Error as problem:
                if faults.classify(problem).spoils_connection:
                    await connection.close()
                raise

    async def _begun(self, pool: Pool) -> tuple[TimedConnection, AbstractAsyncContextManager[Any]]:
        """A transaction that has begun, tried for as long as calls are."""
        patience = Patience(self.settings.retry_for, monotonic())
        while True:
            try:
                connection = await self._pools.borrow(pool)
                try:
                    transaction = connection.transaction()
                    await transaction.__aenter__()
                except BaseException:
                    await pool.putconn(connection)
                    raise
                return connection, transaction  # noqa: TRY300
            except psycopg.Error as problem:
                fault, cause = faults.classify(problem, sent=False), problem
            await rest(patience, fault, Repeat.ALWAYS, cause)

    async def _commit(
        self, connection: TimedConnection, transaction: AbstractAsyncContextManager[Any]
    ) -> None:
        if connection.info.transaction_status is TransactionStatus.INERROR:
            failed = errors.TransactionAborted(
                "a statement of the transaction failed and its error was caught: nothing of the "
                "transaction was committed.\n"
                "Let the error pass, or run such a statement in `connection.transaction()`."
            )
            await _rolled_back(transaction, failed)
            raise failed
        try:
            await transaction.__aexit__(None, None, None)
        except psycopg.Error as problem:
            raise faults.final(faults.classify(problem)) from problem
        connection.standby.require_confirmed()

    async def _persist(self, pool: Pool, call: Call[T], retry_for: timedelta | None = None) -> T:
        limit = self.settings.retry_for if retry_for is None else retry_for
        patience = Patience(limit, monotonic(), self._recognised(call))
        while True:
            sent = False
            try:
                async with self._pools.lent(pool) as connection:
                    sent = True
                    return await self._send(connection, call, is_claim=self._pools.is_claims(pool))
            except UnicodeEncodeError:
                raise errors.unsendable() from None
            except (psycopg.Error, errors.PenstockError) as problem:
                fault, cause = faults.classify(problem, sent=sent, call=call), problem
            await rest(patience, fault, call.repeat, cause)
            if fault.kind is faults.Kind.CONNECTION_LOST:
                call = call.again or call

    def _recognised(self, call: Call[T]) -> float | None:
        """Seconds in which a repetition may be sent: it has to be carried out in time as well."""
        if call.recognised_for is None:
            return None
        return (call.recognised_for - self.settings.call_timeout).total_seconds()

    def _limited(self, connection: Any, call: Call[T]) -> AbstractContextManager[None]:
        """Limit the call, and no other, in a transaction on a connection of ours."""
        if not isinstance(connection, TimedConnection):
            return nullcontext()
        usual = self.settings.call_timeout.total_seconds()
        return connection.answering(faults.LASTING_SECONDS if call.lasting else usual)

    async def _send(self, connection: TimedConnection, call: Call[T], *, is_claim: bool) -> T:
        if call.lasting:
            with connection.answering(faults.LASTING_SECONDS):
                return await self._ask(connection, call, is_claim=is_claim)
        return await self._ask(connection, call, is_claim=is_claim)

    async def _ask(self, connection: TimedConnection, call: Call[T], *, is_claim: bool) -> T:
        try:
            with _busy_noticed(connection, call) as noticed:
                if is_claim and self.settings.pooler:
                    return noticed(await self._send_without_session(connection, call))
                async with connection.cursor(row_factory=tuple_row) as cursor:
                    await cursor.execute(call.sql, call.parameters)
                    rows = await cursor.fetchall()
        except psycopg.Error as problem:
            if faults.classify(problem).spoils_connection:
                await connection.close()
            raise
        connection.standby.require_confirmed()
        return noticed(call.read(rows))

    async def _send_without_session(self, connection: TimedConnection, call: Call[T]) -> T:
        """A claim through a pooler, where a setting lasts for one transaction only."""
        async with connection.cursor(row_factory=tuple_row) as cursor:
            async with connection.pipeline(), connection.transaction():
                await connection.execute("set local synchronous_commit = off")
                await cursor.execute(call.sql, call.parameters)
            # Only now: to ask earlier would cost a round trip of its own.
            return call.read(await cursor.fetchall())


async def rest(patience: Patience, fault: Fault, repeat: Repeat, cause: Exception) -> None:
    """Wait before the next attempt; raise when there is to be none."""
    pause = patience.pause(fault, repeat, monotonic())
    kind = type(fault.error).__name__
    if pause is None:
        emit(Event(Name.CALL_FAILED, error_kind=kind))
        raise patience.final(fault, repeat, monotonic()) from cause
    emit(Event(Name.CALL_RETRIED, attempt=patience.failures, seconds=pause, error_kind=kind))
    await sleep(pause)


async def _rolled_back(
    transaction: AbstractAsyncContextManager[Any], problem: BaseException
) -> bool | None:
    """Undo a transaction; a server that can't be reached any more does so by itself."""
    try:
        return await transaction.__aexit__(type(problem), problem, problem.__traceback__)
    except psycopg.OperationalError:
        return False


@contextmanager
def _busy_noticed(connection: Any, call: Call[T]) -> Iterator[Callable[[T], T]]:
    """Run a claim inside; the function given turns its answer into `busy` if it got no lock.

    Such a claim returns no rows, like one on an empty queue; a notice tells the difference.
    """
    busy = call.busy
    if busy is None:
        yield lambda answer: answer
        return
    notices: list[str | None] = []

    def note(diagnostic: Diagnostic) -> None:
        if diagnostic.sqlstate == errors.QUEUE_BUSY:
            notices.append(diagnostic.message_primary)

    connection.add_notice_handler(note)
    try:
        yield lambda answer: busy if notices else answer
    finally:
        connection.remove_notice_handler(note)
