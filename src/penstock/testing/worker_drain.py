"""Run a worker's handlers until their queues are empty, and tell what happened.

    drained = await drain(worker, clock=penstock_clock)
    assert (drained.handled, drained.failed) == (3, 1)

Handlers run as in a running worker: the same concurrency, time limits, middleware, acks and
retries.  Only the loop around them is another, which waits for nothing: where a message is due
later, it moves the clock.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.cancellation import end
from penstock.observe.events import Event, Name, subscribe
from penstock.worker.runner import Found
from penstock.worker.worker import opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from penstock.models import DeadLetter, MessageId
    from penstock.testing.databases import Clock
    from penstock.worker.runner import Runner
    from penstock.worker.worker import Worker


class NotDrained(AssertionError):
    """The queues did not become empty; a handler that fails for ever may be the cause."""


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain did."""

    events: tuple[Event, ...]
    """Everything that happened, in order."""
    dead_letters: tuple[DeadLetter, ...]
    """The messages that died meanwhile, with their errors."""

    @property
    def handled(self) -> int:
        """Attempts that went well."""
        return self._count(Name.MESSAGE_HANDLED)

    @property
    def failed(self) -> int:
        """Attempts that did not."""
        return self._count(Name.MESSAGE_FAILED)

    @property
    def errors(self) -> list[str]:
        """The kinds of error of those attempts, in order."""
        return [
            event.error_kind or "" for event in self.events if event.name is Name.MESSAGE_FAILED
        ]

    def _count(self, name: Name) -> int:
        return sum(event.count for event in self.events if event.name is name)


async def drain(worker: Worker, *, clock: Clock | None = None, at_most: int = 10_000) -> Drained:
    """Run the worker's handlers until nothing is left for them.

    With a clock also what is delayed or waits for its next attempt; without one, what is due now.
    A worker may be drained again and again, but not while it runs.
    """
    heard: list[Event] = []
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(opened(worker.client, worker.name, asyncio.Event()))
        runners = worker.runners()
        for runner in runners:
            await stack.enter_async_context(_open(runner))
        dead_before = await _dead(worker)
        with subscribe(heard.append):
            await _until_empty(runners, worker, clock, at_most)
        dead = await _dead(worker)
        fresh = tuple(letter for number, letter in dead.items() if number not in dead_before)
    return Drained(tuple(heard), fresh)


@asynccontextmanager
async def _open(runner: Runner) -> AsyncIterator[None]:
    heartbeat = asyncio.create_task(runner.heartbeat.run())
    try:
        yield
    finally:
        await end([heartbeat])
        await runner.close(at_once=False)


async def _until_empty(
    runners: Sequence[Runner], worker: Worker, clock: Clock | None, at_most: int
) -> None:
    left = at_most
    while left > 0:
        # One queue after the other, because a handler may publish for the next.
        found = [await _work_off(runner) for runner in runners]
        claimed = sum(each or 0 for each in found)
        # A round that found nothing counts too: the clock must not be moved for ever.
        left -= claimed or 1
        if claimed or None in found:
            continue
        if not (clock and await _moved_on(worker, clock)):
            return
    raise NotDrained(f"{at_most} messages were claimed and there is still something to do")


async def _work_off(runner: Runner) -> int | None:
    """How many messages were claimed; None: another claim held the queue."""
    size = runner.options.most_claimed
    found = await runner.source.claim(size, list(runner.slots.values()))
    if found.claims:
        # One that would be tried alone has a worker to itself here.
        for claim in found.suspects:
            await runner.source.begin_attempt(claim)
        runner.take(Found(found.claims))
        await runner.settled()
    return None if found.busy else len(found.claims)


async def _moved_on(worker: Worker, clock: Clock) -> bool:
    """Move the clock to the next moment when something is due; False: nothing ever will be."""
    moments = [await worker.client.next_visible_time(each.queue) for each in worker.handlers]
    due = [moment for moment in moments if moment is not None]
    if due:
        await asyncio.to_thread(clock.advance_to, min(due))
    return bool(due)


async def _dead(worker: Worker) -> dict[tuple[str, MessageId], DeadLetter]:
    return {
        (letter.queue, letter.message_id): letter
        for handler in worker.handlers
        for letter in await worker.client.dead_letters(handler.queue)
    }
