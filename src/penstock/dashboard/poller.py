"""One poller for all browsers: it polls while a browser watches, and keeps the samples."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock.cancellation import end
from penstock.client.calls import looks
from penstock.dashboard.samples import Sample, Samples, flows_of
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import AsyncConnection

    from penstock.client.facts import (
        Activity,
        Consumer,
        FailingStep,
        Holder,
        QueueNow,
        Reader,
    )
    from penstock.dashboard.dashboard_database import DashboardDatabase

_log = logging.getLogger("penstock.dashboard")

EVERY = 2.0
_SLOWLY = 6.0
# Of one core of the server, at most; together they stay below two per cent.
_SHARE = 0.007
_SLOW_SHARE = 0.003
_STALE = 15.0
"""After this long without a look, what happened meanwhile is no longer counted: it may be much."""


_REMEMBERED = 5
_WARMING_UP = 2


class PollInterval:
    """A query that is sent every so many seconds, or less often when its answer takes long.

    The share limits the load that a dashboard causes: at a share of one per cent, a query that
    takes 100 ms is not sent again for ten seconds.
    """

    def __init__(self, every: float, share: float) -> None:
        self._every = every
        self._share = share
        self._next = 0.0
        self._took: deque[float] = deque(maxlen=_REMEMBERED)

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def took(self, seconds: float) -> None:
        self._took.append(seconds)
        self._next = time.monotonic() + wait_after(list(self._took), self._every, self._share)

    def hurry(self) -> None:
        """Send it with the next poll: the data was just changed."""
        self._next = 0.0


def wait_after(took: list[float], every: float, share: float) -> float:
    """How long to wait after queries that took so long, the newest last.

    The quickest of them is what the answer costs; the rest of the others was waiting for a busy
    machine.  The first ones also made plans and read the catalogue, and do not count.
    """
    dear = min(took) / share if len(took) > _WARMING_UP else 0.0
    # A little earlier than the next look, which would else find it not quite due.
    return max(0.9 * every, dear)


class Poller:
    """Polls the database every two seconds while a browser watches, and wakes all watchers."""

    def __init__(self, database: DashboardDatabase, every: float = EVERY) -> None:
        self.samples = Samples()
        self.problem: str | None = None
        self._database = database
        self._every = every
        self._watchers = 0
        self._task: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._stopped = False
        self._number = 0
        self._looked_at = 0.0
        self._counted_at = 0.0
        self._snapshot: str | None = None
        self._seconds = 0.0
        self._flow = PollInterval(every, _SHARE)
        self._depth = PollInterval(every, _SHARE)
        self._slow = PollInterval(_SLOWLY, _SLOW_SHARE)
        self._activity: list[Activity] = []
        self._queues: list[QueueNow] = []
        self._consumers: list[Consumer] = []
        self._readers: list[Reader] = []
        self._holders: list[Holder] = []
        self._failing: list[FailingStep] = []

    @property
    def watchers(self) -> int:
        return self._watchers

    async def current(self) -> Sample:
        """The newest sample; a new one is taken when the last look is too long ago."""
        newest = self.samples.newest
        if newest is None or time.monotonic() - self._looked_at > self._every:
            await self._look()
            newest = self.samples.newest
        assert newest is not None
        return newest

    def hurry(self) -> None:
        """What was counted has changed: count again at the next look."""
        self._depth.hurry()
        self._looked_at = 0.0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """While the block runs, the database is looked at."""
        self._watchers += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        try:
            yield
        finally:
            self._watchers -= 1

    async def changes(self) -> AsyncIterator[Sample | None]:
        """Each new sample as it comes; None when the database can't be reached."""
        seen = self._number
        while await self._is_newer_than(seen):
            seen = self._number
            yield None if self.problem else self.samples.newest

    async def _is_newer_than(self, seen: int) -> bool:
        """Wait for the next sample; False when there will be none."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._stopped or self._number != seen)
        return not self._stopped

    async def stop(self) -> None:
        """End every stream, so that the server can stop."""
        self._stopped = True
        async with self._changed:
            self._changed.notify_all()
        if self._task is not None:
            await end([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def _poll(self) -> None:
        while self._watchers and not self._stopped:
            began = time.monotonic()
            try:
                await self._look()
            except PenstockError as problem:
                self.problem = str(problem).partition("\n")[0]
                _log.warning("the database can't be looked at: %s", self.problem)
                await self._tell()
            await asyncio.sleep(max(0.1, self._every - (time.monotonic() - began)))

    async def _look(self) -> None:
        async with self._looking:
            await self._take_sample()
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._number += 1
            self._changed.notify_all()

    async def _take_sample(self) -> None:
        async with self._database.looking() as connection:
            now = await self._database.run(connection, looks.clock())
            if self._depth.is_due():
                self._queues = await self._timed(connection, self._depth, looks.queue_overview())
            if self._flow.is_due():
                await self._count(connection)
            if self._slow.is_due():
                await self._look_slowly(connection)
        self._looked_at = time.monotonic()
        flows, topics = flows_of(self._queues, self._activity, self._seconds)
        self.problem = None
        self.samples.add(
            Sample(
                number=self._number + 1,
                at=now,
                seconds=self._seconds,
                queues={queue.name: queue for queue in self._queues},
                flows=flows,
                topics=topics,
                consumers=self._consumers,
                readers=self._readers,
                holders=self._holders,
                failing=self._failing,
            )
        )

    async def _count(self, connection: AsyncConnection[Any]) -> None:
        """What happened since the last count; after a long absence, only from now on."""
        now = time.monotonic()
        since, self._seconds = self._snapshot, now - self._counted_at
        if since is None or self._seconds > _STALE:
            since, self._seconds = None, 0.0
        self._activity = await self._timed(connection, self._flow, looks.activity(since))
        self._counted_at = now
        self._snapshot = self._activity[0].snapshot if self._activity else None

    async def _look_slowly(self, connection: AsyncConnection[Any]) -> None:
        began = time.monotonic()
        self._consumers = await self._database.run(connection, looks.list_consumers())
        self._readers = await self._database.run(connection, looks.reader_overview())
        self._holders = await self._database.run(connection, looks.horizon_holders())
        self._failing = await self._database.run(connection, looks.failing_steps())
        self._slow.took(time.monotonic() - began)

    async def _timed(self, connection: AsyncConnection[Any], pace: PollInterval, call: Any) -> Any:
        began = time.monotonic()
        answer = await self._database.run(connection, call)
        pace.took(time.monotonic() - began)
        return answer
