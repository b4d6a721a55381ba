"""What becomes of a reserved task."""

from __future__ import annotations

from datetime import timedelta

from penstock.tasks.errors import InvalidTask, LeaseLost
from penstock.tasks.memory.base import MemoryBase
from penstock.tasks.options import DEFAULT_LEASE
from penstock.tasks.task import Lease, Status, Task, storable


class Settles(MemoryBase):
    """Ack, release, burial, extension: each fenced by owner, attempt and time."""

    def _held(self, lease: Lease) -> Task:
        task = self._table.tasks.get(lease.task_id)
        if (
            task is None
            or task.status is not Status.LEASED
            or (task.lease_owner, task.attempts) != (lease.owner, lease.attempt)
            or task.lease_until is None
            or task.lease_until <= self._now()
        ):
            raise LeaseLost(lease.task_id)
        return task

    async def ack(self, lease: Lease, *, result: bytes | None = None) -> None:
        self._held(lease)
        self._table.change(
            lease.task_id,
            status=Status.DONE,
            lease_owner=None,
            lease_until=None,
            updated_at=self._now(),
        )
        if result is not None:
            self._results[lease.task_id] = result
        self._log(lease, None, success=True)

    async def release(
        self,
        lease: Lease,
        *,
        delay: timedelta | None = None,
        reason: str | None = None,
        counts: bool = True,
    ) -> Status:
        task, now, reason = self._held(lease), self._now(), storable(reason)
        self._log(lease, reason or "released", success=False)
        if counts and task.attempts >= task.max_attempts:
            last = reason or f"released after its last attempt, number {lease.attempt}"
            self._bury(task.id, last, now)
            return Status.DEAD
        self._table.change(
            task.id,
            status=Status.QUEUED,
            available_at=now + delay if delay else task.created_at,
            lease_owner=None,
            lease_until=None,
            max_attempts=task.max_attempts + (0 if counts else 1),
            last_error=task.last_error if reason is None else reason,
            last_error_at=task.last_error_at if reason is None else now,
            updated_at=now,
        )
        self._came.set()
        return Status.QUEUED

    async def move_to_dlq(self, lease: Lease, reason: str) -> None:
        words = storable(reason) or "no reason was given"
        self._bury(self._held(lease).id, words, self._now())
        self._log(lease, words, success=False)

    async def extend_lease(self, lease: Lease, by: timedelta = DEFAULT_LEASE) -> Lease:
        if by <= timedelta(0):
            raise InvalidTask(f"a lease can't be extended by {by}: a positive time is needed")
        task = self._held(lease)
        assert task.lease_until is not None
        until = max(task.lease_until, self._now() + by)
        self._table.change(task.id, lease_until=until)
        return Lease(lease.task_id, lease.owner, lease.attempt, until, lease.started_at)
