"""Workers: handlers for topics of tasks, and schedules that enqueue tasks."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from penstock.cancellation import end
from penstock.errors import InvalidSetting
from penstock.observe.events import Event, Name, emit
from penstock.tasks._async.queue import TaskQueue
from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy
from penstock.tasks.task import (
    DEFAULT_TENANT,
    FIRE_PREFIX,
    LONGEST_OWNER,
    NewTask,
    Priority,
    TaskId,
    encoded,
)
from penstock.tasks.task_source import Backoff, TaskSource
from penstock.worker.base_worker import BaseWorker
from penstock.worker.cron import Cron, Missed, Schedule, schedule_named
from penstock.worker.handler import Handler
from penstock.worker.options import Options, RunIn, options_from
from penstock.worker.runner import Runner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
    from datetime import datetime

    from penstock.tasks.store import TaskStore
    from penstock.worker.invoke import Middleware

F = TypeVar("F", bound="Callable[..., Any]")


class TaskWorker(BaseWorker):
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
        middleware: Sequence[Middleware] = (),
        max_queue_retries: int | None = None,
        queue_timeout: timedelta = timedelta(minutes=5),
        queue_error_retry_interval: timedelta = timedelta(seconds=1),
        log_errors: str | None = None,
    ) -> None:
        """`concurrency`: tasks handled at the same time, all handlers together.

        The other options mean what they mean for `Worker` and its handlers; `lease` is how long a
        task is reserved unless the worker extends it.
        """
        super().__init__(name=name, grace=grace, middleware=middleware, log_errors=log_errors)
        self._options = Options(
            concurrency=concurrency,
            # A task that waits here counts an attempt, and another worker may be idle.
            prefetch=0,
            max_queue_retries=max_queue_retries,
            queue_timeout=queue_timeout,
            queue_error_retry_interval=queue_error_retry_interval,
        )
        self._store = queue.store if isinstance(queue, TaskQueue) else queue
        # Two workers never share a name: the name is one half of the fence.
        self.name = self.name[: LONGEST_OWNER - 9] + f"-{secrets.token_hex(4)}"
        self.concurrency = concurrency
        self.lease = lease
        self.polling_interval = polling_interval
        self.policy = policy
        self.backoff = backoff or Backoff()
        self.tenant_id = tenant_id
        self._schedules: dict[str, TaskSchedule] = {}

    # What it does

    def handler(
        self,
        topic: str,
        *,
        concurrency: int | None = None,
        timeout: timedelta | None = None,
        run_in: RunIn | Literal["thread", "process"] = RunIn.THREAD,
        keep_result: bool = False,
    ) -> Callable[[F], F]:
        """Register the decorated function for a topic; a plain function runs in a thread.

        `concurrency`: tasks of this topic at the same time; without one, as many as the worker's.
        What it returns is kept with `keep_result`: bytes as they are, anything else as JSON.
        """
        own = self.concurrency if concurrency is None else min(concurrency, self.concurrency)
        chosen = options_from({"concurrency": own, "timeout": timeout, "run_in": run_in})

        def register(function: F) -> F:
            self._add(
                Handler(topic, function, chosen, keep_result=keep_result),
                f"topic {topic!r} has a handler already",
            )
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
        if missed not in tuple(Missed):
            raise InvalidSetting(f"missed is {missed!r}: choose 'skip' or 'latest'")
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

    async def run(self, *, signals: bool = True, handle_signals: bool = True) -> None:
        """Work until `stop()`, SIGTERM or SIGINT; a second signal stops at once.

        `handle_signals` is an older name of `signals`.
        """
        await self._run(signals=signals and handle_signals)

    def stop(self, *, at_once: bool = False) -> Awaitable[None]:
        """Stop as SIGTERM does; await the answer to return when all is over.

        `at_once`: as a second SIGTERM does.  The stop is asked for even if nothing is awaited.
        """
        self.ask_to_stop(at_once=at_once)
        return _Stopping(self)

    async def drain(self) -> int:
        """For tests: handle what is ready now, one after the other, and say how many it was."""
        if not self._handlers:
            return 0
        [runner] = self.runners()
        heartbeat = asyncio.create_task(runner.heartbeat.run())
        handled = 0
        try:
            while (found := await runner.source.claim(1, list(runner.slots.values()))).claims:
                runner.take(found)
                await runner.idle()
                await runner.settled()
                handled += 1
        finally:
            await end([heartbeat])
            await runner.close(at_once=False)
        return handled

    def runners(self) -> list[Runner]:
        """Handlers at work, and nothing that brings them tasks: for its own loop and tests'."""
        if not self._handlers:
            return []
        source = TaskSource(
            self._store,
            self.name,
            lease=self.lease,
            polling_interval=self.polling_interval,
            policy=self.policy,
            backoff=self.backoff,
            tenant_id=self.tenant_id,
        )
        return [
            Runner(
                source,
                self.handlers,
                self._options,
                layers=self._layers,
                quarantine=self._quarantine,
                log=self.log,
            )
        ]

    def _new_cron(self) -> Cron | None:
        return TaskCron(self._store, self._schedules.values()) if self._schedules else None


class _Stopping:
    """The end of a worker, for those who wait for it."""

    def __init__(self, worker: TaskWorker) -> None:
        self._worker = worker

    def __await__(self) -> Generator[Any, None, None]:
        return self._worker._until_stopped().__await__()  # noqa: SLF001 - its own


@dataclass(frozen=True, slots=True)
class TaskSchedule:
    """A cron line and the task that it makes."""

    line: Schedule
    task: NewTask

    def fire(self, fire_at: datetime) -> NewTask:
        """The task of one fire, the same in every worker."""
        moment = fire_at.astimezone(UTC).isoformat()
        digest = hashlib.sha256(f"{self.line.name}\0{moment}".encode()).hexdigest()
        meta = {**(self.task.meta or {}), "schedule": self.line.name, "scheduled_for": moment}
        return replace(self.task, id=TaskId(f"{FIRE_PREFIX}{digest[:40]}"), meta=meta)


class TaskCron(Cron):
    """Each fire is a task.

    Every worker enqueues it, under an id made of the schedule's name and the fire's time; the store
    keeps the first.  Time is the store's.
    """

    def __init__(self, store: TaskStore, schedules: Iterable[TaskSchedule]) -> None:
        self._store = store
        self._by_name = {each.line.name: each for each in schedules}
        super().__init__(each.line for each in self._by_name.values())

    async def now(self) -> datetime:
        return await self._store.now()

    async def fire(self, schedule: Schedule, fire_at: datetime) -> None:
        task = self._by_name[schedule.name].fire(fire_at)
        await self._store.insert_many([task], skip_duplicates=True)
        emit(Event(Name.SCHEDULE_FIRED, topic=task.topic, schedule=schedule.name, task_id=task.id))
