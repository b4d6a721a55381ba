"""What every part of the store in memory stands on: its tables, its clock, its bell."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

from penstock.tasks.choosing import Turn
from penstock.tasks.health import Finding
from penstock.tasks.memory.table import Table
from penstock.tasks.options import StoreOptions
from penstock.tasks.task import Attempt, AttemptLogFailure, DeadTask, Lease, Status, TaskId

if TYPE_CHECKING:
    from types import TracebackType


class MemoryBase:
    """The tables, and the little that all parts share."""

    wakes = True

    def __init__(self, options: StoreOptions | None = None) -> None:
        self.options = options or StoreOptions()
        self._table = Table()
        self._dlq: dict[int, DeadTask] = {}
        self._attempts: list[Attempt] = []
        self._results: dict[TaskId, bytes] = {}
        self._numbers = itertools.count(1)
        self._shift = timedelta(0)
        self._turn = Turn()
        self._lock = asyncio.Lock()
        self._came = asyncio.Event()

    async def open(self) -> Self:
        return self

    async def close(self) -> None:
        """Nothing is held."""

    async def create_tables(self) -> None:
        """They are always there."""

    async def check(self) -> list[Finding]:
        return [Finding("memory", ok=True, detail="gone when the process ends")]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def shift_clock(self, by: timedelta) -> None:
        self._shift += by

    async def now(self) -> datetime:
        return self._now()

    def _now(self) -> datetime:
        return datetime.now(UTC) + self._shift

    def _bury(self, task_id: TaskId, reason: str, now: datetime) -> None:
        task = self._table.change(
            task_id,
            status=Status.DEAD,
            last_error=reason,
            last_error_at=now,
            lease_owner=None,
            lease_until=None,
            updated_at=now,
        )
        number = next(self._numbers)
        self._dlq[number] = DeadTask(
            number, task.id, task.topic, task.tenant_id, task.payload, task.meta, reason, now
        )

    def _log(self, lease: Lease, reason: str | None, *, success: bool) -> None:
        if not self.options.attempt_log:
            return
        try:
            self._attempts.append(
                Attempt(
                    lease.task_id, lease.attempt, reason, lease.started_at, self._now(), success
                )
            )
        except Exception as problem:  # noqa: BLE001 - as in the other stores
            self.options.tell_of_log_failure(
                AttemptLogFailure(lease.task_id, lease.attempt, problem)
            )

    def _dead(self, topic: str | None, tenant_id: str | None) -> list[DeadTask]:
        return [
            each
            for each in self._dlq.values()
            if topic in (None, each.topic) and tenant_id in (None, each.tenant_id)
        ]

    async def wait(self, at_most: timedelta) -> bool:
        try:
            async with asyncio.timeout(at_most.total_seconds()):
                await self._came.wait()
        except TimeoutError:
            return False
        # Cleared only now: what came since the last look must not be slept through.
        self._came.clear()
        return True
