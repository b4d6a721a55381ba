"""What becomes of a reserved task."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from penstock.tasks import reserving, rows
from penstock.tasks.errors import InvalidTask, LeaseLost
from penstock.tasks.options import DEFAULT_LEASE
from penstock.tasks.sql_store.attempt_log import AttemptLog
from penstock.tasks.task import Lease, Status, storable

if TYPE_CHECKING:
    from penstock.tasks.retrying import Try
    from penstock.tasks.sql import Parameters, Session


class Settles(AttemptLog):
    """Ack, release, burial, extension: each fenced by owner, attempt and time."""

    async def ack(self, lease: Lease, *, result: bytes | None = None) -> None:
        parameters = self._timed(**_fence(lease))

        async def work(session: Session, attempt: Try) -> bool:
            found = await session.run(self._dialect["ack"], parameters)
            if not found:
                return await self._was_done(session, attempt, lease)
            if result is not None:
                await session.run(self._dialect["save_result"], {**parameters, "result": result})
            return True

        acked = await (self._directly(work) if result is None else self._atomically(work))
        if not acked:
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, None, success=True)

    async def _was_done(self, session: Session, attempt: Try, lease: Lease) -> bool:
        """After a lost answer, look at the task: no other worker can have acked this attempt."""
        if not attempt.outcome_unknown:
            return False
        found = await session.rows(self._dialect["standing"], self._timed(id=lease.task_id))
        return bool(found) and found[0][:2] == (Status.DONE, lease.attempt)

    async def release(
        self,
        lease: Lease,
        *,
        delay: timedelta | None = None,
        reason: str | None = None,
        counts: bool = True,
    ) -> Status:
        reason = storable(reason)

        async def work(session: Session, attempt: Try) -> Status | None:
            held = await self._held(session, lease)
            if held is None:
                return await self._was_given_back(session, attempt, lease)
            max_attempts, now = held
            if counts and lease.attempt >= max_attempts:
                last = reason or f"released after its last attempt, number {lease.attempt}"
                await reserving.bury(session, self._dialect, [lease.task_id], last, now)
                return Status.DEAD
            until = now + delay if delay else None
            await session.run(
                self._dialect["release"],
                {
                    "id": lease.task_id,
                    "until": rows.stored(until),
                    "allowed": 0 if counts else 1,
                    "reason": reason,
                    "now": rows.stored(now),
                },
            )
            return Status.QUEUED

        status = await self._atomically(work)
        if status is None:
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, reason or "released", success=False)
        return status

    async def _held(self, session: Session, lease: Lease) -> tuple[int, datetime] | None:
        """Lock the task if the lease still holds it: its last attempt, and the time."""
        found = await session.rows(self._dialect["held"], self._timed(**_fence(lease)))
        return (found[0][1], rows.sure(found[0][2])) if found else None

    async def _was_given_back(self, session: Session, attempt: Try, lease: Lease) -> Status | None:
        if not attempt.outcome_unknown:
            return None
        found = await session.rows(self._dialect["standing"], self._timed(id=lease.task_id))
        if not found or found[0][1] != lease.attempt:
            return None
        status = Status(found[0][0])
        return status if status in (Status.QUEUED, Status.DEAD) else None

    async def move_to_dlq(self, lease: Lease, reason: str) -> None:
        words = storable(reason) or "no reason was given"

        async def work(session: Session, attempt: Try) -> bool:
            held = await self._held(session, lease)
            if held is None:
                return await self._was_given_back(session, attempt, lease) is Status.DEAD
            await reserving.bury(session, self._dialect, [lease.task_id], words, held[1])
            return True

        if not await self._atomically(work):
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, words, success=False)

    async def extend_lease(self, lease: Lease, by: timedelta = DEFAULT_LEASE) -> Lease:
        if by <= timedelta(0):
            raise InvalidTask(f"a lease can't be extended by {by}: a positive time is needed")
        parameters = self._timed(**_fence(lease), by=self._dialect.duration(by))

        async def work(session: Session, _: Try) -> datetime | None:
            if not await session.run(self._dialect["extend"], parameters):
                return None
            [row] = await session.rows(self._dialect["lease_until"], {"id": lease.task_id})
            return rows.sure(row[0])

        until = await self._atomically(work)
        if until is None:
            raise LeaseLost(lease.task_id)
        return Lease(lease.task_id, lease.owner, lease.attempt, until, lease.started_at)


def _fence(lease: Lease) -> Parameters:
    return {"id": lease.task_id, "owner": lease.owner, "attempt": lease.attempt}
