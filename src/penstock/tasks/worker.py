"""Workers: handlers for topics, as many tasks at once as allowed, and an orderly stop."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import time
from contextlib import asynccontextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.cancellation import end
from penstock.errors import InvalidSetting, PenstockError
from penstock.observe.events import Event, Name, emit
from penstock.tasks._async.queue import TaskQueue
from penstock.tasks.backoff import Backoff
from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy
from penstock.tasks.payloads import encoded
from penstock.tasks.running import Handler, Running
from penstock.tasks.schedules import TaskSchedule, task_clockwork
from penstock.tasks.task import DEFAULT_TENANT, LONGEST_OWNER, NewTask, Priority
from penstock.worker.schedules import Missed, Schedule, schedule_named
from penstock.worker.shutdown import signals

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from penstock.tasks.store import TaskStore

F = TypeVar("F", bound="Callable[..., Any]")

_FIRST_PAUSE = timedelta(milliseconds=50)
_LONGEST_ERROR_PAUSE_SECONDS = 30.0
_LARGEST_EXPONENT = 30
# What handlers get to clean up after their cancellation, and the database to hear of it.
_LAST_WORDS = timedelta(seconds=10)


class TaskWorker:
    """`@worker.handler("mail")`, then `await worker.run()`."""

    def __init__(
        self,
        queue: TaskQueue | TaskStore,
        *,
        name: str | None = None,
        concurrency: int = 10,
        lease: timedelta = DEFAULT_LEASE,
        grace: timedelta = timedelta(seconds=30),
        polling_interval: timedelta = timedelta(seconds=1),
        policy: Policy = PLAIN,
        backoff: Backoff | None = None,
        tenant_id: str | None = None,
    ) -> None:
        if concurrency < 1:
            raise InvalidSetting(f"concurrency is {concurrency}: 1 or more is needed")
        self._store = queue.store if isinstance(queue, TaskQueue) else queue
        # Two workers never share a name: the name is one half of the fence.
        self.name = (name or _default_name())[: LONGEST_OWNER - 9] + f"-{secrets.token_hex(4)}"
        self.concurrency = concurrency
        self.lease = lease
        self.grace = grace
        self.polling_interval = polling_interval
        self.policy = policy
        self.backoff = backoff or Backoff()
        self.tenant_id = tenant_id
        self._handlers: dict[str, Handler] = {}
        self._schedules: dict[str, TaskSchedule] = {}
        self._running: dict[asyncio.Task[None], Running] = {}
        self._claim: asyncio.Task[int] | None = None
        self._stopping = asyncio.Event()

    # What it does

    def handler(
        self, topic: str, *, timeout: timedelta | None = None, keep_result: bool = False
    ) -> Callable[[F], F]:
        """Register the decorated function for a topic; a plain function runs in a thread.

        What it returns is kept with `keep_result`: bytes as they are, anything else as JSON.
        """

        def register(function: F) -> F:
            if topic in self._handlers:
                raise InvalidSetting(f"topic {topic!r} has a handler already")
            self._handlers[topic] = Handler(topic, function, timeout, keep_result)
            return function

        return register

    def schedule(
        self,
        cron: str,
        *,
        topic: str,
        payload: Any = None,
        name: str | None = None,
        timezone: str = "UTC",
        missed: str = Missed.SKIP,
        tenant_id: str = DEFAULT_TENANT,
        priority: int = Priority.NORMAL,
    ) -> None:
        """Enqueue a task whenever the cron expression fires, once across all workers."""
        chosen = schedule_named(cron, topic, timezone, name)
        if chosen in self._schedules:
            raise InvalidSetting(f"there is a schedule {chosen!r} already: give it another name")
        line = Schedule(chosen, cron, topic, payload, timezone, Missed(missed))
        task = NewTask(topic, encoded(payload), tenant_id=tenant_id, priority=priority)
        self._schedules[chosen] = TaskSchedule(line, task)

    @property
    def topics(self) -> list[str]:
        return list(self._handlers)

    # Its life

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[TaskWorker]:
        """Its store is open in the block, for a worker that was made at import time."""
        await self._store.open()
        try:
            yield self
        finally:
            await self._store.close()

    async def run(self, *, handle_signals: bool = True) -> None:
        """Work until `stop()`, SIGTERM or SIGINT; then finish what runs and release the rest."""
        if not self._handlers and not self._schedules:
            raise InvalidSetting("the worker has no handlers: register one with @worker.handler")
        emit(Event(Name.WORKER_STARTED, worker=self.name))
        with signals(lambda _: self.stop()) if handle_signals else nullcontext():
            loops = self._start_loops()
            try:
                await self._stopping.wait()
            finally:
                await end(loops)
                await self._drain()
        emit(Event(Name.WORKER_STOPPED, worker=self.name))

    def stop(self) -> None:
        """Ask for an orderly stop."""
        if not self._stopping.is_set():
            emit(Event(Name.WORKER_STOPPING, worker=self.name))
            self._stopping.set()

    async def drain(self) -> int:
        """For tests: handle what is ready now, one after the other, and say how many it was."""
        handled = 0
        while tasks := await self._reserve(1):
            await self._begin(tasks)
            await asyncio.wait(list(self._running))
            handled += 1
        return handled

    def _start_loops(self) -> list[asyncio.Task[None]]:
        loops = []
        if self._handlers:
            loops.append(asyncio.create_task(self._fetch()))
        if self._schedules:
            clockwork = task_clockwork(self._store, self._schedules.values())
            loops.append(asyncio.create_task(clockwork.run()))
        return loops

    async def _fetch(self) -> None:
        """Never ends by itself: a database that is away is asked again."""
        failures = looks = 0
        while True:
            free = self.concurrency - len(self._running)
            if not free:
                await asyncio.wait(list(self._running), return_when=asyncio.FIRST_COMPLETED)
                continue
            try:
                self._claim = asyncio.create_task(self._reserve_and_begin(free))
                tasks = await asyncio.shield(self._claim)
                failures = 0
            except PenstockError as problem:
                failures += 1
                emit(Event(Name.CALL_FAILED, error_kind=type(problem).__name__))
                await asyncio.sleep(error_pause(failures))
                continue
            looks = 0 if tasks else looks + 1
            # Woken: look again at once, and begin with short naps if it was in vain.
            if looks and await self._store.wait(self._pause(looks)):
                looks = 1

    def _pause(self, looks: int) -> timedelta:
        """Longer and longer, up to the polling interval, and not in step with other workers."""
        grown = _FIRST_PAUSE * 2.0 ** min(looks - 1, _LARGEST_EXPONENT)
        return min(grown, self.polling_interval) * random.uniform(0.9, 1)  # noqa: S311

    async def _reserve_and_begin(self, limit: int) -> int:
        """Not to be cancelled halfway: what was reserved must be begun, or it would lie idle."""
        tasks = await self._reserve(limit)
        await self._begin(tasks)
        return len(tasks)

    async def _reserve(self, limit: int) -> list[Any]:
        return await self._store.reserve(
            self.name,
            topics=self.topics,
            tenant_id=self.tenant_id,
            limit=limit,
            lease=self.lease,
            policy=self.policy,
        )

    async def _begin(self, tasks: list[Any]) -> None:
        if tasks:
            emit(Event(Name.TASK_RESERVED, count=len(tasks), worker=self.name))
        for task in tasks:
            handler = self._handlers.get(task.topic)
            if handler is None:
                # A table whose collation takes Mail for mail: another worker may know the topic.
                await self._store.release(task.lease, delay=self.polling_interval, counts=False)
                continue
            running = Running(self._store, task, handler, lease=self.lease, backoff=self.backoff)
            work = asyncio.create_task(running.run())
            self._running[work] = running
            work.add_done_callback(self._running.pop)
            if self._stopping.is_set():
                running.stop()

    async def _drain(self) -> None:
        """Wait for handlers until the grace is over; then cancel them and release their tasks."""
        deadline = time.monotonic() + self.grace.total_seconds()
        if self._claim is not None:
            # A reserve under way is waited for: what it brings is released at once.
            await asyncio.wait([self._claim], timeout=self.grace.total_seconds())
            if not self._claim.cancelled() and self._claim.done():
                self._claim.exception()
        while self._running and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(list(self._running), timeout=left)
        for running in list(self._running.values()):
            running.stop()
        if self._running:
            _, stubborn = await asyncio.wait(
                list(self._running), timeout=_LAST_WORDS.total_seconds()
            )
            await end(list(stubborn))


def error_pause(failures: int) -> float:
    """How long to wait after so many failed looks in a row."""
    grown = 0.5 * 2.0 ** min(failures - 1, _LARGEST_EXPONENT)
    return min(_LONGEST_ERROR_PAUSE_SECONDS, grown) * random.uniform(0.75, 1)  # noqa: S311


def _default_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
