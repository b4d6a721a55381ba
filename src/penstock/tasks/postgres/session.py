"""Connections to PostgreSQL, and what its errors mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from penstock.errors import DatabaseUnavailable, PenstockError, translate
from penstock.tasks.errors import TablesMissing, TaskTooLarge
from penstock.tasks.retrying import Fault, Try, persist

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from penstock.tasks.options import StoreOptions
    from penstock.tasks.sql import Parameters, Row, Session

T = TypeVar("T")

_CONFLICTS = ("40001", "40P01", "55P03")
_AWAY = ("08", "57P01", "57P02", "57P03", "53300", "25006")
_MISSING = ("42P01", "42703")
_TOO_LARGE = ("22001", "54000")


class PostgresSession:
    """One connection, while one piece of work has it."""

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        cursor = await self._connection.execute(sql.encode(), parameters)
        return await cursor.fetchall()

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        cursor = await self._connection.execute(sql.encode(), parameters)
        return cursor.rowcount

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self._connection.transaction()


class PostgresDatabase:
    """A pool, whose work is repeated when the server was away or broke a deadlock."""

    def __init__(self, dsn: str, options: StoreOptions) -> None:
        self.dsn = dsn
        self._options = options
        self._pool = AsyncConnectionPool(
            dsn,
            min_size=1,
            max_size=options.pool_size,
            timeout=options.connect_timeout.total_seconds(),
            kwargs={"autocommit": True, "application_name": "penstock tasks"},
            configure=_configure,
            open=False,
        )

    async def open(self) -> None:
        try:
            await self._pool.open(wait=True, timeout=self._options.connect_timeout.total_seconds())
        except PoolTimeout as problem:
            await self._pool.close()
            raise _unreachable(problem) from None

    async def close(self) -> None:
        await self._pool.close()

    async def atomically(self, work: Callable[[Session, Try], Awaitable[T]]) -> T:
        async def once(attempt: Try) -> T:
            async with self._pool.connection() as connection, connection.transaction():
                return await work(PostgresSession(connection), attempt)

        return await self._persist(once)

    async def directly(self, work: Callable[[Session, Try], Awaitable[T]]) -> T:
        async def once(attempt: Try) -> T:
            async with self._pool.connection() as connection:
                return await work(PostgresSession(connection), attempt)

        return await self._persist(once)

    async def _persist(self, once: Callable[[Try], Awaitable[T]]) -> T:
        try:
            return await persist(once, classify, self._options.retry_for)
        except (PoolTimeout, PoolClosed, TooManyRequests) as problem:
            raise _unreachable(problem) from None
        except psycopg.Error as problem:
            raise explained(problem) from problem


async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    # Whatever the server's default is: a reserve must see what others committed meanwhile.
    await connection.set_isolation_level(psycopg.IsolationLevel.READ_COMMITTED)
    # Names of tables stand in the statements, so a plan is worth keeping from the start.
    connection.prepare_threshold = 2


def classify(problem: Exception) -> Fault:
    """What an error means for the work that met it."""
    if isinstance(problem, PoolTimeout | TooManyRequests):
        return Fault.AWAY
    if not isinstance(problem, psycopg.Error):
        return Fault.REFUSED
    code = problem.sqlstate
    if code is None:
        lost = isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError)
        return Fault.AWAY if lost else Fault.REFUSED
    if code in _CONFLICTS:
        return Fault.CONFLICT
    return Fault.AWAY if code.startswith(_AWAY) else Fault.REFUSED


def explained(problem: psycopg.Error) -> PenstockError:
    """The error that a person can act on."""
    code, words = problem.sqlstate, problem.diag.message_primary or str(problem)
    if code in _MISSING:
        return TablesMissing(f"{words}: run `penstock task init` on this database")
    if code is not None and code.startswith(_TOO_LARGE):
        return TaskTooLarge(f"{words}: store large payloads elsewhere, and enqueue where they are")
    return translate(problem)


def _unreachable(problem: Exception) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"no connection to the database: {problem}\n"
        "Check the DSN (--dsn or PENSTOCK_DSN) and that the server is running."
    )
