"""Getting messages: when the loop looks at its queue, and what it does when it can't."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock.client import calls
from penstock.client.consumer_options import LONGEST_REGISTERED, Mode, Stragglers, registration
from penstock.errors import ClientClosed, PenstockError, WorkerGaveUp
from penstock.postgres.subscription import Reach
from penstock.worker.rhythm import Load, error_pause, idle_pause, wanted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock.models import ClaimedMessage, MessageId
    from penstock.worker.handlers import Handler

# After a look in vain that something should have been found in: a lock, or a key that is busy.
_BLOCKED_PAUSE_SECONDS = 0.02
_MANY_LOOKS = 60


class Fetcher:
    """Looks at one queue for as long as the worker runs; no failure ends it."""

    def __init__(
        self,
        handler: Handler,
        client: Any,
        token: str,
        *,
        load: Callable[[], Load],
        deliver: Callable[[list[ClaimedMessage], float, list[MessageId]], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._handler = handler
        self._options = handler.options
        self._client = client
        self._database = client.database
        self._token = token
        self._load = load
        self._deliver = deliver
        self._tell_failure = failed
        self._nudged = asyncio.Event()
        self._changed = asyncio.Event()
        self._idle_looks = 0
        self._stragglers = Stragglers()
        self._failures = 0
        self._claiming: asyncio.Future[calls.Claimed] | None = None
        self.looking = False
        """A claim is under way, or about to be."""
        self.trouble: str | None = None

    def finished(self, *, look_again: bool = False) -> None:
        """Something has ended, so there may be room.

        `look_again`: the queue itself has changed.  A key's next message may be free, or a retry
        may be due before the sleep would end.
        """
        self._nudged.set()
        if look_again:
            self._changed.set()

    async def run(self) -> None:
        """Ends by cancellation, or after `max_queue_retries` failures in a row."""
        while True:
            try:
                async with self._watching() as watch:
                    await self._fetch(watch)
            except (PenstockError, TimeoutError) as problem:
                # The channel's name could not be asked for.
                await asyncio.sleep(self._failed(problem))

    async def last_claim(self) -> None:
        """Return when a claim that was under way has come in."""
        claiming = self._claiming
        if claiming is not None:
            await asyncio.wait([claiming])
            self._claiming = None
            if not claiming.cancelled() and claiming.exception() is None:
                self._hand_over(claiming.result(), time.monotonic())

    def abandon(self) -> None:
        if self._claiming is not None:
            self._claiming.cancel()

    @asynccontextmanager
    async def _watching(self) -> AsyncIterator[Any]:
        if self._options.mode is Mode.POLL or self._client.settings.pooler:
            yield None
            return
        async with self._client.listener.watch(calls.channel(self._handler.queue)) as watch:
            yield watch

    async def _fetch(self, watch: Any) -> None:
        while True:
            try:
                await self._look(watch)
            except (PenstockError, TimeoutError) as problem:
                # A listener that finds the database again wakes us before the pause is over.
                await self._nap(watch, self._failed(problem))

    async def _look(self, watch: Any) -> None:
        if self._handler.gate is not None:
            await self._handler.gate()
        count = wanted(self._options, self._load())
        self._nudged.clear()
        self._changed.clear()
        if count == 0:
            await self._nudged.wait()
            return
        hears = watch is not None and watch.reach is Reach.HEARING
        self.looking = True
        try:
            if self._idle_looks and hears:
                await self._register()
            found = await self._claim(count)
        finally:
            self.looking = False
        if found:
            # Fewer than asked for: the queue is empty now, and the next look registers first.
            self._idle_looks = int(found < count)
            # Finding something has ended our registration.
            self._stragglers.forget()
        elif found is None:
            # Another claim held the queue, and this one has waited for it.
            await self._nap(watch, _BLOCKED_PAUSE_SECONDS)
        elif self._idle_looks == 0:
            self._idle_looks = 1
        else:
            await self._rest(watch, hears=hears)

    async def _register(self) -> None:
        longest = min(self._options.longest_pause.total_seconds(), LONGEST_REGISTERED)
        span = registration(longest)
        await self._database.claim(calls.start_waiting(self._handler.queue, span, self._token))
        if self._stragglers.mark is None:
            self._stragglers.mark = await self._database.claim(calls.mark())

    async def _claim(self, count: int) -> int | None:
        """How many messages were found; None: the claim did not get its turn."""
        # The claim's time runs from the moment at which it was sent, at the earliest.
        sent_at = time.monotonic()
        call = calls.consume_deferring(
            self._handler.queue, self._token, self._options.claim_for, count
        )
        self._claiming = asyncio.ensure_future(self._database.claim(call))
        try:
            async with asyncio.timeout(self._options.queue_timeout.total_seconds()):
                # A stopping worker ends this loop, but not a claim that may have found something.
                found = await asyncio.shield(self._claiming)
        except TimeoutError:
            self._claiming.cancel()
            raise
        self._claiming = None
        self._failures, self.trouble = 0, None
        self._hand_over(found, sent_at)
        return None if isinstance(found.messages, calls.Busy) else len(found.messages)

    def _hand_over(self, found: calls.Claimed, sent_at: float) -> None:
        if found.messages:
            ends_at = sent_at + self._options.claim_for.total_seconds()
            self._deliver(found.messages, ends_at, found.suspects)

    async def _rest(self, watch: Any, *, hears: bool) -> None:
        """Sleep: until something is due, or a wake-up, or the next look."""
        outlook = await self._database.claim(calls.outlook(self._handler.queue))
        due_in = None if outlook.due_in is None else outlook.due_in.total_seconds()
        if due_in is not None and due_in <= 0:
            due_in = _BLOCKED_PAUSE_SECONDS * 2.0 ** min(self._idle_looks, _MANY_LOOKS)
        luck = random.random()  # noqa: S311 - no secret
        doubtful = hears and self._stragglers.left(outlook.oldest_writer)
        pause = idle_pause(
            self._options, self._idle_looks, due_in, luck, hears=hears, doubtful=doubtful
        )
        self._idle_looks += 1
        if await self._nap(watch, pause):
            # Something is likely to be there: registering anew first would only cost time.
            self._idle_looks = 0
            # If the line was lost, the server may have been, and our registration with it.
            self._stragglers.forget()

    async def _nap(self, watch: Any, seconds: float) -> bool:
        """Sleep; True when something woke us: the database, or the end of a key's message."""
        naps = [asyncio.ensure_future(self._changed.wait())]
        if watch is not None:
            naps.append(asyncio.ensure_future(watch.wait(seconds)))
        try:
            ended, _ = await asyncio.wait(
                naps, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            return any(nap.result() for nap in ended)
        finally:
            for nap in naps:
                nap.cancel()
            await asyncio.gather(*naps, return_exceptions=True)

    def _failed(self, problem: Exception) -> float:
        """Count a failure; returns how long to wait."""
        if isinstance(problem, ClientClosed):
            # A closed client is not opened again: the worker ends with this error.
            raise problem
        if self._claiming is not None and self._claiming.done():
            self._claiming = None
        self._failures += 1
        self.trouble = str(problem).partition("\n")[0] or type(problem).__name__
        self._tell_failure(problem)
        most = self._options.max_queue_retries
        if most is not None and self._failures > most:
            raise WorkerGaveUp(
                f"queue {self._handler.queue!r} could not be read {self._failures} times in a row; "
                f"the last time: {self.trouble}\n"
                "See that the database can be reached and the queue exists, then start the worker "
                "again; without max_queue_retries it would go on trying."
            ) from problem
        return error_pause(self._options, self._failures, random.random())  # noqa: S311
