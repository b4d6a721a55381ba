"""A worker: handlers for queues, and schedules that publish messages."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from penstock.backoff import backoff
from penstock.cancellation import end
from penstock.client._async.client import Client
from penstock.client._async.maintenance import maintain
from penstock.errors import (
    DatabaseUnavailable,
    EngineError,
    InvalidSetting,
    PenstockError,
    WorkerGaveUp,
)
from penstock.observe.events import Event, Name, emit
from penstock.worker.base_worker import BaseWorker
from penstock.worker.cron import Cron, Missed, Schedule, TopicCron, schedule_named
from penstock.worker.handler import Handler
from penstock.worker.options import HandlerOptions, options_from
from penstock.worker.queue_source import QueueSource
from penstock.worker.runner import Runner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from penstock.worker.groups import Group
    from penstock.worker.invoke import Middleware

F = TypeVar("F", bound="Callable[..., Any]")

_log = logging.getLogger("penstock.worker")
_UPKEEP_SECONDS = 30.0


class Worker(BaseWorker):
    """Serves queues with handlers: `@worker.handler("billing")`, then `await worker.run()`."""

    def __init__(
        self,
        client: Client,
        *,
        name: str | None = None,
        grace: timedelta = timedelta(seconds=30),
        middleware: Sequence[Middleware] = (),
        log_errors: str | None = None,
    ) -> None:
        """`log_errors`: "traceback", "text" or "kind"; by default a terminal gets tracebacks."""
        if not isinstance(client, Client):
            raise InvalidSetting(
                f"a worker needs a client of penstock.connect(), not {client!r}; that of "
                "penstock.sync can't be used: a plain function may be a handler all the same"
            )
        super().__init__(name=name, grace=grace, middleware=middleware, log_errors=log_errors)
        self.client = client
        self._schedules: dict[str, Schedule] = {}

    # What it does

    def handler(self, queue: str, **options: Unpack[HandlerOptions]) -> Callable[[F], F]:
        """Register the decorated function for a queue; `Options` lists what can be chosen."""
        if not isinstance(queue, str):
            raise InvalidSetting(
                f'a handler needs the name of its queue, not {queue!r}: @worker.handler("billing")'
            )
        chosen = options_from(options)

        def register(function: F) -> F:
            self._register(Handler(queue, function, chosen))
            return function

        return register

    def add_group(self, group: Group, **options: Unpack[HandlerOptions]) -> Group:
        """Serve a consumer group's queue with its members."""
        self._register(Handler(group.queue, group.handle, options_from(options), group.populated))
        return group

    def schedule(
        self,
        cron: str,
        *,
        topic: str,
        payload: Any,
        name: str | None = None,
        timezone: str = "UTC",
        missed: str = Missed.SKIP,
        key: str | None = None,
        priority: int | None = None,
    ) -> Schedule:
        """Publish a message whenever the cron expression fires, once across all workers."""
        if missed not in tuple(Missed):
            raise InvalidSetting(f"missed is {missed!r}: choose 'skip' or 'latest'")
        chosen = schedule_named(cron, topic, timezone, name)
        if chosen in self._schedules:
            raise InvalidSetting(f"there is a schedule {chosen!r} already: give it another name")
        made = Schedule(chosen, cron, topic, payload, timezone, Missed(missed), key, priority)
        self._schedules[chosen] = made
        return made

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        return tuple(self._schedules.values())

    def _register(self, handler: Handler) -> None:
        self._add(
            handler,
            f"queue {handler.queue!r} has a handler already: raise its concurrency, or create "
            "another queue on the same topic",
        )

    # Its life

    async def run(self, *, signals: bool = True) -> None:
        """Work until `stop()`, SIGTERM or SIGINT; a second signal stops at once."""
        await self._run(signals=signals)

    async def stop(self, *, at_once: bool = False) -> None:
        """Stop as SIGTERM does, and return when all is over; `at_once`: as the second one does."""
        self.ask_to_stop(at_once=at_once)
        await self._until_stopped()

    def runners(self) -> list[Runner]:
        """Handlers at work, and nothing that brings them messages: for its own loop and tests'."""
        return [
            Runner(
                QueueSource(handler, self.client, self.name),
                [handler],
                handler.options,
                layers=self._layers,
                quarantine=self._quarantine,
                log=self.log,
            )
            for handler in self._handlers.values()
        ]

    def _new_cron(self) -> Cron | None:
        if not self._schedules:
            return None
        return TopicCron(self.client.database, self._schedules.values())

    def _upkeep(self) -> list[Coroutine[Any, Any, None]]:
        return [_keep_up(self.client)]

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[bool]:
        self._check_pool()
        async with opened(self.client, self.name, self._stop_asked) as is_open:
            yield is_open

    def _check_pool(self) -> None:
        held = sum(each.options.concurrency for each in self.handlers if each.options.transactional)
        size = self.client.settings.pool_size
        if held >= size:
            _log.warning(
                "transactional handlers may hold %d connections, and the pool has %d: their calls "
                "without connection=, and acks of other handlers, then wait.  Raise pool_size "
                "(PENSTOCK_POOL_SIZE), or lower their concurrency.",
                held,
                size,
            )


@asynccontextmanager
async def opened(client: Client, worker: str, stop_asked: asyncio.Event) -> AsyncIterator[bool]:
    """Open the client, waiting for its database; False: the worker was told to stop first.

    A worker may be started before its database.  A client that others have opened stays open.
    """
    if client.database.is_open:
        yield True
        return
    opening = asyncio.create_task(_open_patiently(client, worker))
    stopping = asyncio.create_task(stop_asked.wait())
    try:
        await asyncio.wait([opening, stopping], return_when=asyncio.FIRST_COMPLETED)
        is_open = opening.done()
    finally:
        # Also when the worker is cancelled meanwhile: nothing goes on without it.
        await end([stopping, opening])
    try:
        if is_open:
            opening.result()
        yield is_open
    finally:
        await client.close()


async def _open_patiently(client: Client, worker: str) -> None:
    attempt = 0
    while True:
        try:
            await client.open()
        except (DatabaseUnavailable, EngineError) as problem:
            attempt += 1
            kind = type(problem).__name__
            emit(Event(Name.CALL_FAILED, worker=worker, attempt=attempt, error_kind=kind))
            await asyncio.sleep(backoff(attempt))
        else:
            return


async def _keep_up(client: Client) -> None:
    """The engine's housekeeping, now and then: any worker may do it, and one at a time is enough.

    Consuming doesn't depend on it, so a failure waits for next time.
    """
    while True:
        # Many workers started together should not come together.
        await asyncio.sleep(_UPKEEP_SECONDS * (0.5 + random.random()))  # noqa: S311 - no secret
        try:
            await maintain(client.database.run)
        except PenstockError:
            continue


__all__ = ["Worker", "WorkerGaveUp"]
