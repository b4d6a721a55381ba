"""One task in a worker's hands: its handler, its lease kept alive, and what becomes of it."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cancellation import end
from penstock.errors import PenstockError
from penstock.observe.events import Event, Name, emit
from penstock.tasks.errors import LeaseLost
from penstock.tasks.task import Status
from penstock.worker.outcomes import Dead, Retry, described

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from penstock.tasks.backoff import Backoff
    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import Lease, Task

STOPPED = "the worker stopped before the handler had finished"


class TookTooLong(Exception):
    """The handler's time limit came first."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function for the tasks of one topic."""

    topic: str
    function: Callable[..., Any]
    timeout: timedelta | None = None
    keep_result: bool = False

    async def __call__(self, task: Task) -> Any:
        async with asyncio.timeout(self.timeout.total_seconds() if self.timeout else None) as limit:
            try:
                return await self._run(task)
            except asyncio.CancelledError:
                if limit.expired():
                    assert self.timeout is not None
                    seconds = self.timeout.total_seconds()
                    raise TookTooLong(f"the handler took longer than {seconds:g} s") from None
                raise

    async def _run(self, task: Task) -> Any:
        if inspect.iscoroutinefunction(self.function):
            return await self.function(task)
        return await asyncio.to_thread(self.function, task)


class Running:
    """Handles one task, from its reserve to its end."""

    def __init__(
        self,
        store: TaskStore,
        task: Task,
        handler: Handler,
        *,
        lease: timedelta,
        backoff: Backoff,
    ) -> None:
        self._store = store
        self._task = task
        self._handler = handler
        self._duration = lease
        self._backoff = backoff
        self._lease: Lease = task.lease
        self._lost = False
        self._stopping = False
        self._work: asyncio.Task[Any] | None = None

    def stop(self) -> None:
        """Cancel the handler; its task is released for others."""
        self._stopping = True
        if self._work is not None:
            self._work.cancel()

    async def run(self) -> None:
        """Returns when all is said; never raises for what a handler or the database did."""
        started = time.perf_counter()
        self._work = asyncio.create_task(self._handler(self._task))
        if self._stopping:
            self._work.cancel()
        keeper = asyncio.create_task(self._keep_lease(self._work))
        try:
            await asyncio.wait([self._work])
        except asyncio.CancelledError:
            # The loop is being torn down: the lease ends by itself.
            self._work.cancel()
            raise
        finally:
            await end([keeper])
        with suppress(LeaseLost, PenstockError):
            await self._settle(self._work, time.perf_counter() - started)

    async def _keep_lease(self, work: asyncio.Task[Any]) -> None:
        """Extend at half the lease; a lease that can't be extended in time is lost."""
        while True:
            await asyncio.sleep(self._duration.total_seconds() / 2)
            try:
                # What is left of it: the database may be away, and the store goes on trying.
                async with asyncio.timeout(self._duration.total_seconds() / 2):
                    self._lease = await self._store.extend_lease(self._lease, self._duration)
            except (PenstockError, TimeoutError):
                self._lost = True
                work.cancel()
                return

    async def _settle(self, work: asyncio.Task[Any], seconds: float) -> None:
        if self._lost:
            self._tell(Name.LEASE_LOST)
            return
        try:
            if work.cancelled():
                await self._cancelled()
            elif (problem := work.exception()) is not None:
                await self._failed(problem, seconds)
            else:
                await self._store.ack(self._lease, result=self._result(work.result()))
                self._tell(Name.TASK_DONE, seconds=seconds)
        except LeaseLost:
            self._tell(Name.LEASE_LOST)

    def _result(self, value: Any) -> bytes | None:
        if not self._handler.keep_result or value is None:
            return None
        return value if isinstance(value, bytes) else json.dumps(value).encode()

    async def _cancelled(self) -> None:
        if self._stopping:
            await self._store.release(self._lease, reason=STOPPED, counts=False)
            self._tell(Name.TASK_RELEASED)
            return
        # The handler's own doing: something it waited for was cancelled.
        await self._failed(asyncio.CancelledError("the handler was cancelled"), 0.0)

    async def _failed(self, problem: BaseException, seconds: float) -> None:
        kind = type(problem).__name__
        if isinstance(problem, Dead):
            await self._store.move_to_dlq(self._lease, problem.reason)
            self._tell(Name.TASK_DEAD_LETTERED, error_kind=kind)
            return
        delay = problem.delay if isinstance(problem, Retry) else None
        if delay is None:
            delay = self._backoff.delay(self._lease.attempt)
        reason = str(problem) if isinstance(problem, Retry) else described(problem)
        status = await self._store.release(self._lease, delay=delay, reason=reason)
        name = Name.TASK_DEAD_LETTERED if status is Status.DEAD else Name.TASK_FAILED
        self._tell(name, seconds=seconds, error_kind=kind)

    def _tell(
        self, name: Name, *, seconds: float | None = None, error_kind: str | None = None
    ) -> None:
        emit(
            Event(
                name,
                topic=self._task.topic,
                task_id=self._task.id,
                attempt=self._lease.attempt,
                seconds=seconds,
                error_kind=error_kind,
            )
        )
