"""One LISTEN connection for all queues of a client, which mends itself.

A watch is woken by its queue's notifications, and whenever the line comes or goes: after a gap
nobody knows what was missed, so whoever waits looks for himself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import psycopg

from penstock.client import calls, listening, retrying
from penstock.client._async.concurrency import Background, Doorbell, Event, monotonic
from penstock.client._async.line import Line
from penstock.client.listening import Reach, Rhythm, Subscriptions
from penstock.errors import PenstockError
from penstock.observe import events

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.client._async.database import Database

_HEARTBEAT = "select 1"


class Watch:
    """Wakes whoever waits for one queue."""

    def __init__(self, listener: Listener, queue: str) -> None:
        self._listener = listener
        self._queue = queue
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
        self._channel = await self._listener.subscribe(self._queue, self)
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

    def __init__(self, database: Database, rhythm: Rhythm | None = None) -> None:
        self._database = database
        self._rhythm = rhythm or Rhythm()
        self._subscriptions: Subscriptions[Watch] = Subscriptions()
        self._in_force: frozenset[str] = frozenset()
        self._reach = Reach.NOT_YET
        self._doorbell = Doorbell()
        self._background = Background(self._run, "penstock listener")
        self._closing = False

    def watch(self, queue: str) -> Watch:
        """Be woken when this queue may have something: `async with listener.watch(…) as watch`."""
        return Watch(self, queue)

    async def subscribe(self, queue: str, watch: Watch) -> str:
        """Begin to wake a watch; the answer is its channel."""
        if self._database.settings.pooler:
            watch.reach = Reach.DEAF
        channel = await self._database.run(calls.channel(queue))
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
                if not self._closing:
                    self._lose(error)
                    await self._pause(failures)

    async def _connect(self) -> Line:
        connection = await self._database.dedicated()
        line = Line(connection, self._doorbell, self._rhythm.patience)
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
        changes = listening.changes(wanted, self._in_force)
        if changes:
            # Behind a pooler a LISTEN would stay with a session that serves others next.
            if self._reach is Reach.HEARING:
                await line.ask(changes.statement())
            self._in_force = wanted
            # Only now is LISTEN in force: what was published before must be looked for.
            for channel in changes.listen:
                self._wake(channel)

    async def _hear(self, line: Line) -> None:
        rest = listening.rest(line.heard_at, monotonic(), self._rhythm)
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
        rhythm = self._rhythm
        until = monotonic() + retrying.backoff(
            failures, first=rhythm.first_delay, longest=rhythm.longest_delay
        )
        while not self._closing and (left := until - monotonic()) > 0:
            # New watches ring too; they wait like everybody.
            await self._doorbell.wait(None, left)
