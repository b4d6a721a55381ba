"""Getting messages: when the loop looks at its source, and what it does when it can't."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from penstock.errors import ClientClosed, PenstockError, WorkerGaveUp
from penstock.worker.options import error_pause

if TYPE_CHECKING:
    from penstock.worker.runner import Runner
    from penstock.worker.source import Found


class Fetcher:
    """Looks at one source for as long as the worker runs; no failure ends it."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._source = runner.source
        self._options = runner.options
        self._failures = 0
        self._claiming: asyncio.Future[Found] | None = None
        self.looking = False
        """A claim is under way, or about to be."""
        self.trouble: str | None = None

    async def run(self) -> None:
        """Ends by cancellation, or after `max_queue_retries` failures in a row."""
        while True:
            try:
                async with self._source.watching():
                    await self._fetch()
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
                self._hand_over(claiming.result())

    def abandon(self) -> None:
        if self._claiming is not None:
            self._claiming.cancel()

    async def _fetch(self) -> None:
        while True:
            try:
                await self._look()
            except (PenstockError, TimeoutError) as problem:
                # A listener that finds the database again wakes us before the pause is over.
                await self._source.sleep(self._failed(problem), self._runner.changed)

    async def _look(self) -> None:
        runner = self._runner
        await self._source.ready()
        count = runner.wanted()
        runner.freed.clear()
        runner.changed.clear()
        if count == 0:
            await runner.freed.wait()
            return
        self.looking = True
        try:
            await self._source.prepare()
            found = await self._claim(count)
        finally:
            self.looking = False
        await self._source.rest(found, count, runner.changed)

    async def _claim(self, count: int) -> Found:
        slots = list(self._runner.slots.values())
        self._claiming = asyncio.ensure_future(self._source.claim(count, slots))
        try:
            async with asyncio.timeout(self._options.queue_timeout.total_seconds()):
                # A stopping worker ends this loop, but not a claim that may have found something.
                found = await asyncio.shield(self._claiming)
        except TimeoutError:
            self._claiming.cancel()
            raise
        self._claiming = None
        self._failures, self.trouble = 0, None
        self._hand_over(found)
        return found

    def _hand_over(self, found: Found) -> None:
        if found.claims:
            self._runner.take(found)

    def _failed(self, problem: Exception) -> float:
        """Count a failure; returns how long to wait."""
        if isinstance(problem, ClientClosed):
            # A closed client is not opened again: the worker ends with this error.
            raise problem
        if self._claiming is not None and self._claiming.done():
            self._claiming = None
        self._failures += 1
        self.trouble = str(problem).partition("\n")[0] or type(problem).__name__
        self._source.tell_failure(problem)
        most = self._options.max_queue_retries
        if most is not None and self._failures > most:
            raise WorkerGaveUp(
                f"{self._source.title} could not be read {self._failures} times in a row; "
                f"the last time: {self.trouble}\n"
                "See that the database can be reached and the queue exists, then start the worker "
                "again; without max_queue_retries it would go on trying."
            ) from problem
        return error_pause(self._options, self._failures, random.random())  # noqa: S311 - no secret
