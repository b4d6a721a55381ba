"""Connections to a server, which has to answer in time, and the pools that lend them."""

from __future__ import annotations

import os
import select
import weakref
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import tuple_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from penstock import errors
from penstock.errors import translated
from penstock.payloads import loads
from penstock.postgres._async.concurrency import (
    Cancelled,
    Lock,
    current_task,
    home,
    in_thread,
    monotonic,
    not_at_home,
    on_fork,
)
from penstock.postgres.faults import CANCEL_SECONDS, Overdue, StandbyCheck, Trust, until
from penstock.postgres.session import ConnectGate, session_statements, with_defaults

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from psycopg.abc import PQGen

    from penstock.settings import Settings

T = TypeVar("T")

# The server's last message and the end of the stream may arrive one after the other.
_LOOKS = 3
# The pool's own attempts slow down as they fail; a call that still wants one starts afresh.
_PATIENCE = 5.0
# While the server takes no more connections, a claim waits this long for one of its own.
_MOMENT = 0.02

_FULL = "the server took no connection a moment ago: the next attempt is made soon"

# Pools of a parent process.  Its sockets are not ours to close, and the end of a pool would.
_of_parent: list[object] = []


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
        task = current_task()
        before = 0 if task is None else task.cancelling()

        def is_cancelled() -> bool:
            return task is not None and task.cancelling() > before

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


Pool = AsyncConnectionPool[TimedConnection]


class Pools:
    """Two pools: one whose commits are durable, and a small one for claims, whose need not be.

    A claim that a crash of the server undoes is handed out again, as if it had ended.
    """

    def __init__(self, settings: Settings, find_server: Callable[[ExitStack], str]) -> None:
        """`find_server` gives the DSN, and puts what has to be closed at the end on the stack."""
        self.settings = settings
        self._find_server = find_server
        self._closing = ExitStack()
        # A program that ends without closing leaves the embedded server all the same.
        weakref.finalize(self, _close_in, os.getpid(), self._closing)
        self._durable: Pool | None = None
        self._claims: Pool | None = None
        self._lock = Lock()
        self._is_open = False
        self._home: object = None
        self._trust = Trust()
        self._gate = ConnectGate()
        self.patience = min(_PATIENCE, settings.connect_timeout.total_seconds())
        """Seconds that one attempt to borrow a connection may take."""
        self.dsn: str | None = None
        on_fork(self._forget_parent)

    @property
    def is_open(self) -> bool:
        return self._is_open

    async def durable(self) -> Pool:
        if self._durable is None:
            await self._open_pools()
        elif home() is not self._home:
            raise not_at_home()
        assert self._durable is not None
        return self._durable

    async def claims(self) -> Pool:
        if self._claims is None:
            await self._open_pools()
        elif home() is not self._home:
            raise not_at_home()
        assert self._claims is not None
        return self._claims

    def is_claims(self, pool: Pool) -> bool:
        return pool is self._claims

    async def open(self) -> None:
        """Find the server, see that its engine fits, and open the pools."""
        if self._is_open:
            return
        try:
            self.dsn = await in_thread(partial(self._find_server, self._closing))
            self._is_open = True
            await self._open_pools()
        except BaseException:
            await self.close()
            raise

    async def _open_pools(self) -> None:
        if not self._is_open:
            raise errors.ClientClosed(
                "the client is not open: use `async with connect() as mq`, or `await mq.open()`"
            )
        async with self._lock:
            if self._claims is not None:
                return
            self._home = home()
            durable = self._pool(self.settings.pool_size, self._configure)
            claims = self._pool(self.settings.claim_pool_size, self._configure_claims)
            await durable.open()
            await claims.open()
            self._durable, self._claims = durable, claims

    async def close(self) -> None:
        """Close every connection, and leave the embedded server."""
        pools = (self._durable, self._claims)
        self._is_open = False
        self._durable = self._claims = None
        try:
            if any(pools) and home() is not self._home:
                raise not_at_home()
            for pool in pools:
                if pool is not None:
                    await pool.close()
        finally:
            await in_thread(self._closing.close)

    def _forget_parent(self) -> None:
        """In a forked process: leave the parent its connections, and make new ones when asked."""
        _of_parent.extend((self._durable, self._claims, self._closing))
        self._durable = self._claims = None
        self._closing = ExitStack()
        self._lock = Lock()

    async def borrow(self, pool: Pool) -> TimedConnection:
        """A connection that the server has not closed while it was idle.

        After a restart of the server all idle connections are dead.  They are passed over at once:
        the pool's own check would wait between two of them, longer each time.
        """
        return await self._borrow(pool, self.patience)

    async def _borrow(self, pool: Pool, patience: float) -> TimedConnection:
        end = monotonic() + patience
        while True:
            connection = await pool.getconn(max(0.0, end - monotonic()))
            if self._trust.covers(connection.made_at):
                try:
                    connection.require_alive()
                except psycopg.Error:
                    pass
                else:
                    return connection
            else:
                # Without a Terminate message: the peer does not answer, and the socket may be full.
                connection.pgconn.finish()
            await pool.putconn(connection)

    @asynccontextmanager
    async def lent(self, pool: Pool) -> AsyncIterator[TimedConnection]:
        """Such a connection, for as long as the block lasts."""
        pool, connection = await self._borrow_or_share(pool)
        try:
            async with connection:
                yield connection
        finally:
            await pool.putconn(connection)

    async def _borrow_or_share(self, pool: Pool) -> tuple[Pool, TimedConnection]:
        """A connection, and the pool that it goes back to.

        While the server takes no more connections, claims use those of the other pool: a client
        that could ack but not claim would keep a connection that others need.
        """
        if pool is self._claims and self._gate.failures and self._durable is not None:
            try:
                return pool, await self._borrow(pool, _MOMENT)
            except PoolTimeout:
                pool = self._durable
        return pool, await self.borrow(pool)

    async def dedicated(self) -> TimedConnection:
        """A connection outside the pools, which the caller closes."""
        await self.durable()
        if not self._gate.is_open(monotonic()):
            raise errors.DatabaseUnavailable(_FULL)
        try:
            connection = await connect(replace(self.settings, dsn=self.dsn))
        except errors.DatabaseUnavailable:
            self._gate.failed(monotonic())
            raise
        self._gate.succeeded()
        return connection

    def distrust(self) -> None:
        """The server does not answer on one connection: give up the others that exist now.

        Calls that wait for an answer stop waiting, and idle connections are not used again.
        """
        self._trust.end(monotonic())

    def _pool(self, size: int, configure: Any) -> Pool:
        assert self.dsn is not None
        return AsyncConnectionPool(
            self.dsn,
            connection_class=_gated(self._gate),
            kwargs=connect_options(self.settings),
            # A process that never claims, or never publishes, holds no connection for it.
            min_size=0,
            max_size=size,
            timeout=self.patience,
            reconnect_timeout=_PATIENCE,
            configure=configure,
            open=False,
        )

    async def _configure(self, connection: TimedConnection, *more: str) -> None:
        connection.trust = self._trust
        await begin_session(connection, self.settings, *more)
        set_json_loads(loads, connection)

    async def _configure_claims(self, connection: TimedConnection) -> None:
        more = [] if self.settings.pooler else ["set synchronous_commit = off"]
        await self._configure(connection, *more)


def _gated(gate: ConnectGate) -> type[TimedConnection]:
    """Connections that are not even tried while the gate is closed."""

    class GatedConnection(TimedConnection):
        @classmethod
        async def connect(cls, *args: Any, **options: Any) -> Any:
            if not gate.is_open(monotonic()):
                raise psycopg.OperationalError(_FULL)
            try:
                connection = await super().connect(*args, **options)
            except (psycopg.Error, OSError):
                gate.failed(monotonic())
                raise
            gate.succeeded()
            return connection

    return GatedConnection


def _close_in(process: int, closing: ExitStack) -> None:
    """Close what belongs to a process, at its end and not at that of a fork."""
    if os.getpid() == process:
        closing.close()
