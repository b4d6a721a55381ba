"""How tasks are leased from the store in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks.choosing import Room, Scope, candidates
from penstock.tasks.chores import Chore, Locked, lease_ended, sorted_out
from penstock.tasks.memory.base import MemoryBase
from penstock.tasks.memory.table import MemoryReader
from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy, Wish
from penstock.tasks.task import Lease, Status, Task, TaskId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


class Reserves(MemoryBase):
    """Reserve: chores first, then what the wish is for."""

    async def reserve(
        self,
        owner: str,
        *,
        topics: Sequence[str] | None = None,
        tenant_id: str | None = None,
        limit: int = 1,
        lease: timedelta = DEFAULT_LEASE,
        policy: Policy = PLAIN,
    ) -> list[Task]:
        wish = Wish(owner, topics, tenant_id, limit, lease, policy)
        if wish.empty:
            return []
        async with self._lock:
            return await self._reserve(wish)

    async def _reserve(self, wish: Wish) -> list[Task]:
        now = self._now()
        self._do_chores(now)
        reader = MemoryReader(self._table, now)
        wanted = await reader.topics() if wish.topics is None else list(dict.fromkeys(wish.topics))
        room = self._running(wish.policy)
        open_topics = tuple(topic for topic in wanted if not room.topic_full(topic))
        scope = Scope(open_topics, wish.tenant_id, wish.policy, now)
        taken: list[Task] = []
        async for each in candidates(reader, scope, room, self._turn, wish.limit):
            if not room.admits(each):
                continue
            room.count(each.topic, each.tenant_id)
            self._turn.give(each.tenant_id)
            taken.append(self._lease(each.id, wish.owner, now, now + wish.lease))
            if len(taken) == wish.limit:
                break
        return taken

    def _lease(self, task_id: TaskId, owner: str, now: datetime, until: datetime) -> Task:
        return self._table.change(
            task_id,
            status=Status.LEASED,
            lease_owner=owner,
            lease_until=until,
            attempts=self._table.tasks[task_id].attempts + 1,
            updated_at=now,
        )

    def _running(self, policy: Policy) -> Room:
        room = Room(policy)
        for task in self._table.tasks.values():
            if task.status is Status.LEASED:
                room.count(task.topic, task.tenant_id)
        return room

    def _do_chores(self, now: datetime) -> None:
        for chore, found in sorted_out(self._table.locked(), now).items():
            for each in found:
                self._do(chore, each, now)

    def _do(self, chore: Chore, each: Locked, now: datetime) -> None:
        no_lease = {"lease_owner": None, "lease_until": None, "updated_at": now}
        match chore:
            case Chore.READY:
                self._table.change(each.id, available_at=each.created_at)
            case Chore.EXPIRE:
                self._table.change(each.id, status=Status.EXPIRED, **no_lease)
            case Chore.REQUEUE:
                self._table.change(
                    each.id,
                    status=Status.QUEUED,
                    available_at=each.created_at,
                    last_error=lease_ended(each),
                    last_error_at=now,
                    **no_lease,
                )
            case Chore.BURY:
                self._bury(each.id, lease_ended(each), now)
        if each.status is Status.LEASED:
            assert each.lease_until is not None
            ended = Lease(
                each.id, each.lease_owner or "", each.attempts, each.lease_until, each.updated_at
            )
            self._log(ended, lease_ended(each), success=False)
