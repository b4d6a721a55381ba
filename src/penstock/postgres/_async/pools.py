"""The pools: how connections are made, lent and looked after."""

from __future__ import annotations

import os
import weakref
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from penstock import errors
from penstock.payloads import loads
from penstock.postgres._async.concurrency import (
    Lock,
    home,
    in_thread,
    monotonic,
    on_fork,
    require_home,
)
from penstock.postgres._async.connection import (
    TimedConnection,
    begin_session,
    connect,
    connect_options,
)
from penstock.postgres.faults import Trust
from penstock.postgres.session import ConnectGate
from penstock.postgres.startup import prepare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.settings import Settings

Pool = AsyncConnectionPool[TimedConnection]

# The pool's own attempts slow down as they fail; a call that still wants one starts afresh.
_PATIENCE = 5.0
# While the server takes no more connections, a claim waits this long for one of its own.
_MOMENT = 0.02

_FULL = "the server took no connection a moment ago: the next attempt is made soon"

# Pools of a parent process.  Its sockets are not ours to close, and the end of a pool would.
_of_parent: list[object] = []


class Pools:
    """Two pools: one whose commits are durable, and a small one for claims, whose need not be.

    A claim that a crash of the server undoes is handed out again, as if it had ended.
    """

    def __init__(self, settings: Settings, *, engine: bool = True) -> None:
        self.settings = settings
        self._engine = engine
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
        else:
            require_home(self._home)
        assert self._durable is not None
        return self._durable

    async def claims(self) -> Pool:
        if self._claims is None:
            await self._open_pools()
        else:
            require_home(self._home)
        assert self._claims is not None
        return self._claims

    def is_claims(self, pool: Pool) -> bool:
        return pool is self._claims

    async def open(self) -> None:
        """Find the server, see that its engine fits, and open the pools."""
        if self._is_open:
            return
        try:
            started = partial(prepare, self.settings, self._closing, engine=self._engine)
            self.dsn = await in_thread(started)
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
            if any(pools):
                require_home(self._home)
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
        if pool is self._claims and self._gate.failing and self._durable is not None:
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
