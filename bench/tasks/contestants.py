"""Who is measured: our store, plain and with tenants in turns, and the naive one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from penstock.tasks import NewTask, Policy
from penstock.tasks.task import new_task_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.tasks import TaskStore

LEASE = timedelta(minutes=30)
PAYLOAD = b"x" * 200

_RESERVE = """
select id, topic, tenant_id, payload, attempts from mq_tasks
where status = 'queued' and available_at <= %(now)s
  and (expires_at is null or expires_at > %(now)s) and topic = 'mail'
order by priority desc, created_at limit %(limit)s for update skip locked
"""
_ACK = """
update mq_tasks set status = 'done', lease_owner = null, lease_until = null, updated_at = %(now)s
where id = %(id)s and lease_owner = 'bench' and status = 'leased'
"""
_INSERT = """
insert into mq_tasks (id, topic, tenant_id, payload, priority, status, available_at, created_at,
                      updated_at)
values (%(id)s, 'mail', 't1', %(payload)s, 20, 'queued', %(now)s, %(now)s, %(now)s)
"""


class Contestant(Protocol):
    """What is asked of everybody."""

    name: str

    async def enqueue(self, count: int) -> None: ...
    async def reserve(self, limit: int) -> Sequence[object]: ...
    async def ack(self, taken: Sequence[object]) -> None: ...
    async def close(self) -> None: ...


class Penstock:
    """Ours."""

    def __init__(self, store: TaskStore, *, fair: bool) -> None:
        self.name = "penstock, in turns" if fair else "penstock"
        self._store = store
        self._policy = Policy(fair=fair)

    async def enqueue(self, count: int) -> None:
        await self._store.insert_many(
            [NewTask("mail", PAYLOAD, tenant_id="t1") for _ in range(count)]
        )

    async def reserve(self, limit: int) -> Sequence[object]:
        return await self._store.reserve(
            "bench", topics=["mail"], limit=limit, lease=LEASE, policy=self._policy
        )

    async def ack(self, taken: Sequence[Any]) -> None:
        for task in taken:
            await self._store.ack(task.lease)

    async def close(self) -> None:
        await self._store.close()


class Naive:
    """What most people write first: select for update, update; on the seed's tables and indexes.

    It checks neither attempt nor lease time, takes no lease back, and knows no turns.
    """

    name = "naive"

    def __init__(self, database: Any, lease: str) -> None:
        self._database = database
        self._lease = lease

    async def enqueue(self, count: int) -> None:
        async def work(session: Any) -> None:
            for _ in range(count):
                row = {"id": new_task_id(), "payload": PAYLOAD, "now": _now()}
                await session.run(_INSERT, row)

        await self._database.atomically(work)

    async def reserve(self, limit: int) -> Sequence[object]:
        async def work(session: Any) -> list[object]:
            found = await session.rows(_RESERVE, {"now": _now(), "limit": limit})
            now = _now()
            parameters = {"ids": [row[0] for row in found], "until": now + LEASE, "now": now}
            await session.run(self._lease, parameters)
            return list(found)

        return await self._database.atomically(work)

    async def ack(self, taken: Sequence[Any]) -> None:
        for row in taken:
            await self._database.directly(_acking(row[0]))

    async def close(self) -> None:
        await self._database.close()


def _acking(task_id: str) -> Any:
    async def work(session: Any) -> int:
        found: int = await session.run(_ACK, {"id": task_id, "now": _now()})
        return found

    return work


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)
