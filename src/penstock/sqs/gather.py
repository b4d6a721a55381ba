"""Group commit at the door: requests that meet are carried out in one transaction.

A lane is one queue, by its name in the engine.  What arrives for an idle lane sets out at once,
with everything else that arrived in the same turn of the loop; what arrives while its lane is busy
sets out together when that is done.  There is no timer, so a lone request waits for nobody, and the
busier a lane is, the more its transactions carry.  A lane that has to wait for a lock holds up no
other lane.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_BYTES = 2 * 1024 * 1024
_LOOK = 0.01


class Ask(NamedTuple):
    """A request and its context, both as JSON."""

    request: bytes
    context: bytes


@dataclass(eq=False, slots=True)
class Job:
    """One action on its way."""

    action: str
    queue: str
    ask: Ask
    answer: asyncio.Future[bytes]


class Gatherer:
    """Runs batches: `begin` sees to it that every job of one is answered, and tells when.

    `width` is how many run at once; with `mixed`, jobs of several lanes share a batch.
    """

    def __init__(
        self,
        begin: Callable[[Sequence[Job], Callable[[], None]], None],
        *,
        most: int,
        width: int,
        mixed: bool,
    ) -> None:
        self._begin = begin
        self._most = most
        self._width = width
        self._mixed = mixed
        self._ready: dict[str, list[Job]] = {}
        self._busy: dict[str, list[Job]] = {}
        """Lanes that have a batch under way, with those who wait for its end."""
        self._running = 0
        self._called = False

    def ask(self, action: str, queue: str, ask: Ask) -> asyncio.Future[bytes]:
        """The answer to one request, which may travel with others."""
        loop = asyncio.get_running_loop()
        job = Job(action, queue, ask, loop.create_future())
        waiting = self._busy.get(queue)
        if waiting is not None:
            waiting.append(job)
        else:
            self._ready.setdefault(queue, []).append(job)
            if not self._called:
                # Not now: others that arrived in this turn of the loop come along.
                self._called = True
                loop.call_soon(self._start)
        return job.answer

    async def settle(self) -> None:
        """Wait until nothing is under way."""
        while self._running or self._ready:  # noqa: ASYNC110 - once, when the server stops
            await asyncio.sleep(_LOOK)

    def _start(self) -> None:
        self._called = False
        while self._ready and self._running < self._width:
            lanes, batch = self._load()
            self._running += 1
            self._begin(batch, partial(self._done, lanes))

    def _load(self) -> tuple[list[str], list[Job]]:
        """Take a batch of what is ready; its lanes are busy from now on."""
        lanes: list[str] = []
        batch: list[Job] = []
        size = 0
        while self._ready and (not lanes or (self._mixed and len(batch) < self._most)):
            lane = next(iter(self._ready))
            jobs = self._ready.pop(lane)
            count, size = fitting(jobs, self._most - len(batch), size)
            batch += jobs[:count]
            lanes.append(lane)
            self._busy[lane] = jobs[count:]
            if count < len(jobs):
                break
        return lanes, batch

    def _done(self, lanes: Sequence[str]) -> None:
        self._running -= 1
        for lane in lanes:
            if waiting := self._busy.pop(lane):
                self._ready[lane] = waiting
        if self._ready and not self._called:
            self._called = True
            asyncio.get_running_loop().call_soon(self._start)


def fitting(jobs: Sequence[Job], most: int, size: int = 0) -> tuple[int, int]:
    """How many of the first jobs a batch of this size still takes, and its size then."""
    count = 0
    for job in jobs[:most]:
        added = size + len(job.ask.request)
        if added > MOST_BYTES and size:
            break
        count, size = count + 1, added
    return count, size
