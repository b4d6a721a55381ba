"""Group commit: calls that arrive together are carried out in one transaction.

A lane is one queue, by its name in the engine.  A call for an idle lane starts at once, with
everything else that arrived in the same turn of the event loop; calls for a busy lane start
together when its batch is done.  There is no timer, so a lone call does not wait, and the busier a
lane is, the more calls its transactions hold.  A lane that has to wait for a lock holds up no other
lane.
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


class Invocation(NamedTuple):
    """A request and its context, both as JSON; `pgqs.invoke_on` takes both."""

    request: bytes
    context: bytes


@dataclass(eq=False, slots=True)
class BatchedCall:
    """One action, and the future of its answer."""

    action: str
    queue: str
    invocation: Invocation
    answer: asyncio.Future[bytes]


class CallBatcher:
    """Runs batches: `begin` answers every call of a batch, and tells when it has.

    `width` is how many run at once; with `mixed`, calls of several lanes share a batch.
    """

    def __init__(
        self,
        begin: Callable[[Sequence[BatchedCall], Callable[[], None]], None],
        *,
        most: int,
        width: int,
        mixed: bool,
    ) -> None:
        self._begin = begin
        self._most = most
        self._width = width
        self._mixed = mixed
        self._ready: dict[str, list[BatchedCall]] = {}
        self._busy: dict[str, list[BatchedCall]] = {}
        """Lanes that have a batch under way, with the calls that wait for its end."""
        self._running = 0
        self._called = False

    def submit(self, action: str, queue: str, invocation: Invocation) -> asyncio.Future[bytes]:
        """The answer to one call, which may share a batch with others."""
        loop = asyncio.get_running_loop()
        call = BatchedCall(action, queue, invocation, loop.create_future())
        waiting = self._busy.get(queue)
        if waiting is not None:
            waiting.append(call)
        else:
            self._ready.setdefault(queue, []).append(call)
            if not self._called:
                # Not now: calls that arrive in this turn of the loop join the batch.
                self._called = True
                loop.call_soon(self._start)
        return call.answer

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

    def _load(self) -> tuple[list[str], list[BatchedCall]]:
        """Take a batch of what is ready; its lanes are busy from now on."""
        lanes: list[str] = []
        batch: list[BatchedCall] = []
        size = 0
        while self._ready and (not lanes or (self._mixed and len(batch) < self._most)):
            lane = next(iter(self._ready))
            calls = self._ready.pop(lane)
            count, size = fitting(calls, self._most - len(batch), size)
            batch += calls[:count]
            lanes.append(lane)
            self._busy[lane] = calls[count:]
            if count < len(calls):
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


def fitting(calls: Sequence[BatchedCall], most: int, size: int = 0) -> tuple[int, int]:
    """How many of the first calls a batch of this size still takes, and its size then."""
    count = 0
    for call in calls[:most]:
        added = size + len(call.invocation.request)
        if added > MOST_BYTES and size:
            break
        count, size = count + 1, added
    return count, size
