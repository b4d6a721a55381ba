"""One LISTEN connection for all channels of a database, which reconnects by itself.

A watch is woken by its channel's notifications, and whenever the connection is made or lost.
During a gap notifications may have been missed, so each waiting consumer looks at its queue.

The connection may be quiet for hours, so silence says nothing.  A heartbeat asks a question when
it has been quiet for a while; an answer that does not come within the patience means a dead line.
With the defaults a half-open socket is noticed after ten seconds.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import psycopg
from psycopg import errors, pq, sql

from penstock.backoff import backoff
from penstock.errors import PenstockError
from penstock.observe import events
from penstock.postgres._async.concurrency import Background, Doorbell, Event, monotonic
from penstock.postgres.session import ListenerTimes, Reach

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet
    from types import TracebackType

    from penstock.postgres._async.connections import TimedConnection
    from penstock.postgres._async.database import Database
    from penstock.postgres.call import Call

W = TypeVar("W")

_HEARTBEAT = "select 1"
_FAILED = (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE)


class Watch:
    """Wakes a consumer that waits for one channel."""

    def __init__(self, listener: Listener, channel: Call[str]) -> None:
        self._listener = listener
        self._call = channel
        self._woken = Event()
        self._channel: str | None = None
        self.reach = Reach.NOT_YET

    async def wait(self, timeout: float) -> bool:  # noqa: ASYNC109
        """True: look now, for there was a notification, or the line came or went.  False: time up.

        What happens between two waits is not missed: the next one returns at once.
        """
        woken = await self._woken.wait(timeout)
        self._woken.clear()
        return woken

    def wake(self) -> None:
        self._woken.set()

    async def __aenter__(self) -> Self:
        self._channel = await self._listener.subscribe(self._call, self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._channel is not None:
            self._listener.unsubscribe(self._channel, self)
            self._channel = None


class Listener:
    """Started by the first watch, ended by `close()`."""

    def __init__(self, database: Database, times: ListenerTimes | None = None) -> None:
        self._database = database
        self._times = times or ListenerTimes()
        self._subscriptions: Subscriptions[Watch] = Subscriptions()
        self._in_force: frozenset[str] = frozenset()
        self._reach = Reach.NOT_YET
        self._doorbell = Doorbell()
        self._background = Background(self._run, "penstock listener")
        self._closing = False

    def watch(self, channel: Call[str]) -> Watch:
        """Be woken by notifications: `async with listener.watch(calls.channel(…)) as watch`.

        `channel` is the call that gives the channel's name.
        """
        return Watch(self, channel)

    async def subscribe(self, name: Call[str], watch: Watch) -> str:
        """Begin to wake a watch; the answer is its channel."""
        if self._database.settings.pooler:
            watch.reach = Reach.DEAF
        channel = await self._database.run(name)
        self._subscriptions.add(channel, watch)
        if channel in self._in_force:
            watch.reach = self._reach
        if watch.reach is not Reach.DEAF:
            self._background.start()
            self._doorbell.ring()
        return channel

    def unsubscribe(self, channel: str, watch: Watch) -> None:
        self._subscriptions.remove(channel, watch)
        self._doorbell.ring()

    async def close(self) -> None:
        """End the connection.  Watches are woken no more."""
        self._closing = True
        self._doorbell.ring()
        await self._background.stop()
        self._doorbell.close()

    async def _run(self) -> None:
        failures = 0
        while not self._closing:
            try:
                line = await self._connect()
                failures = 0
                await self._serve(line)
            except (psycopg.Error, PenstockError, OSError) as error:
                failures += 1
                if isinstance(error, LineSilent):
                    # The server's silence is not this connection's alone.
                    self._database.distrust()
                if not self._closing:
                    self._lose(error)
                    await self._pause(failures)

    async def _connect(self) -> Line:
        connection = await self._database.dedicated()
        line = Line(connection, self._doorbell, self._times.patience)
        try:
            await line.identify()
        except BaseException:
            await line.close()
            raise
        return line

    async def _serve(self, line: Line) -> None:
        try:
            self._reach = Reach.DEAF if line.shared else Reach.HEARING
            events.emit(events.Event(events.Name.LISTENER_CONNECTED))
            while not self._closing:
                await self._subscribe(line)
                await self._hear(line)
        finally:
            self._in_force = frozenset()
            await line.close()

    async def _subscribe(self, line: Line) -> None:
        wanted = self._subscriptions.channels()
        changes = changes_between(wanted, self._in_force)
        if changes:
            # Behind a pooler a LISTEN would stay with a session that serves others next.
            if self._reach is Reach.HEARING:
                await line.ask(changes.statement())
            self._in_force = wanted
            # Only now is LISTEN in force: what was published before must be looked for.
            for channel in changes.listen:
                self._wake(channel)

    async def _hear(self, line: Line) -> None:
        rest = rest_before_heartbeat(line.heard_at, monotonic(), self._times)
        if rest > 0:
            await line.rest(rest)
        else:
            await line.ask(_HEARTBEAT)
        for channel in line.heard():
            self._wake(channel)

    def _wake(self, channel: str) -> None:
        for watch in self._subscriptions.of(channel):
            watch.reach = self._reach
            watch.wake()

    def _lose(self, error: Exception) -> None:
        self._reach = Reach.NOT_YET
        events.emit(events.Event(events.Name.LISTENER_LOST, error_kind=type(error).__name__))
        for watch in self._subscriptions:
            watch.reach = Reach.NOT_YET
            watch.wake()

    async def _pause(self, failures: int) -> None:
        times = self._times
        until = monotonic() + backoff(
            failures, first=times.first_delay, longest=times.longest_delay
        )
        while not self._closing and (left := until - monotonic()) > 0:
            # A new watch rings the doorbell too; that does not shorten the pause.
            await self._doorbell.wait(None, left)


class LineSilent(errors.OperationalError):
    """The server did not answer in time."""


class Line:
    """One open connection, and what has been heard on it.  Every question on it has a deadline.

    psycopg's own calls can't be given up: to cancel one it waits for the server's answer, which a
    dead socket never brings.  So this uses libpq's non-blocking interface, and waits by itself.
    """

    def __init__(self, connection: TimedConnection, doorbell: Doorbell, patience: float) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._encoding = connection.info.encoding
        self._doorbell = doorbell
        self._patience = patience
        self._heard: list[str] = []
        self.heard_at = monotonic()

    async def ask(self, query: str | sql.Composed) -> bytes | None:
        """Send statements and wait for their end; the answer is the last one's first value."""
        deadline = monotonic() + self._patience
        self._pgconn.send_query(self._encoded(query))
        value: bytes | None = None
        while (result := await self._result(deadline)) is not None:
            if result.status in _FAILED:
                raise errors.error_from_result(result, self._encoding)
            value = result.get_value(0, 0) if result.ntuples else None
        self.heard_at = monotonic()
        # Waiting for the answer cleared the doorbell.  Ring it again, so that no ring is lost.
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

    def _encoded(self, query: str | sql.Composed) -> bytes:
        if isinstance(query, str):
            return query.encode()
        return query.as_bytes(self._connection)


# What the listener decides, without touching a socket or a clock


def rest_before_heartbeat(heard_at: float, now: float, times: ListenerTimes) -> float:
    """How long to wait for notifications before asking whether the line lives; 0: ask now."""
    return max(0.0, heard_at + times.heartbeat - now)


@dataclass(frozen=True, slots=True)
class Changes:
    """What to tell the server, so that it notifies of the right channels."""

    listen: frozenset[str]
    unlisten: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.listen or self.unlisten)

    def statement(self) -> sql.Composed:
        """All of it in one message to the server."""
        words = [
            *(sql.SQL("listen {}").format(sql.Identifier(each)) for each in sorted(self.listen)),
            *(
                sql.SQL("unlisten {}").format(sql.Identifier(each))
                for each in sorted(self.unlisten)
            ),
        ]
        return sql.SQL("; ").join(words)


def changes_between(wanted: AbstractSet[str], in_force: AbstractSet[str]) -> Changes:
    return Changes(frozenset(wanted - in_force), frozenset(in_force - wanted))


class Subscriptions(Generic[W]):
    """Who wants to be woken by which channel.  The blocking client's threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[str, list[W]] = {}

    def add(self, channel: str, watch: W) -> None:
        with self._lock:
            self._watches.setdefault(channel, []).append(watch)

    def remove(self, channel: str, watch: W) -> None:
        with self._lock:
            watches = self._watches[channel]
            watches.remove(watch)
            if not watches:
                del self._watches[channel]

    def channels(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._watches)

    def of(self, channel: str) -> list[W]:
        with self._lock:
            return list(self._watches.get(channel, ()))

    def __iter__(self) -> Iterator[W]:
        with self._lock:
            all_watches = [watch for watches in self._watches.values() for watch in watches]
        return iter(all_watches)
