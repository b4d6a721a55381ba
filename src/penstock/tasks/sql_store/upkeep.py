"""Tasks changed from outside: cancelled, retried, replayed, purged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks import rows
from penstock.tasks.errors import InvalidTask, TaskNotFound
from penstock.tasks.replaying import Replay, replay_some
from penstock.tasks.sql_store.base import SqlBase
from penstock.tasks.task import OPEN, Replayed, Status, TaskId, storable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from penstock.tasks.retrying import Try
    from penstock.tasks.sql import Parameters, Session

_PURGED_AT_ONCE = 1000


class Upkeep(SqlBase):
    """What an operator does."""

    async def cancel(self, task_id: TaskId, reason: str = "cancelled") -> bool:
        async def work(session: Session, _: Try) -> bool:
            status, now = await self._standing(session, task_id)
            if status not in OPEN:
                return False
            await session.run(
                self._dialect["cancel"],
                {"id": task_id, "reason": storable(reason), "now": rows.stored(now)},
            )
            return True

        return await self._atomically(work)

    async def retry(self, task_id: TaskId) -> bool:
        async def work(session: Session, _: Try) -> bool:
            status, now = await self._standing(session, task_id)
            if status in (Status.LEASED, Status.DONE):
                return False
            await session.run(self._dialect["forget_dead"], {"id": task_id})
            await session.run(self._dialect["revive"], {"id": task_id, "now": rows.stored(now)})
            return True

        return await self._atomically(work)

    async def _standing(self, session: Session, task_id: TaskId) -> tuple[Status, datetime]:
        found = await session.rows(self._dialect["standing"], self._timed(id=task_id))
        if not found:
            raise TaskNotFound(f"there is no task {task_id}")
        return Status(found[0][0]), rows.sure(found[0][3])

    async def replay_dlq(
        self,
        *,
        limit: int | None = None,
        delay: timedelta | None = None,
        available_at: datetime | None = None,
        reset_attempts: bool = True,
        topic: str | None = None,
        tenant_id: str | None = None,
    ) -> Replayed:
        wish = Replay(delay, available_at, reset_attempts, topic, tenant_id, self._timed())
        replayed, after = 0, 0
        while limit is None or replayed < limit:
            left = None if limit is None else limit - replayed

            async def work(
                session: Session, _: Try, after: int = after, left: int | None = left
            ) -> tuple[int, int | None]:
                return await replay_some(session, self._dialect, wish, after, left)

            count, last = await self._atomically(work)
            replayed += count
            if last is None:
                break
            after = last
        [row] = await self._read("count_dlq", topic=topic, tenant_id=tenant_id)
        return Replayed(replayed, int(row[0]))

    async def purge(
        self, older_than: timedelta, *, statuses: Sequence[Status] = (Status.DONE,)
    ) -> int:
        if any(status in OPEN for status in statuses):
            raise InvalidTask("only done, dead and expired tasks can be purged; cancel the others")
        purged = 0
        parameters = self._timed(
            older_than=self._dialect.duration(older_than),
            statuses=[status.value for status in statuses],
            limit=_PURGED_AT_ONCE,
        )
        while True:

            async def work(session: Session, _: Try) -> int:
                return await self._purge_some(session, parameters)

            count = await self._atomically(work)
            purged += count
            if count < _PURGED_AT_ONCE:
                return purged

    async def _purge_some(self, session: Session, parameters: Parameters) -> int:
        return await session.run(self._dialect["purge"], parameters)
