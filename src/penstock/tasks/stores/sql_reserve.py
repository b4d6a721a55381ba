"""A reserve on an SQL database, step by step, inside one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks.stores import sql_rows as rows
from penstock.tasks.stores.store_rules import (
    BATCH,
    Candidate,
    Chore,
    Locked,
    Room,
    Scope,
    Turn,
    candidates,
    sorted_out,
)
from penstock.tasks.task import Task, TaskId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from penstock.tasks.options import Policy
    from penstock.tasks.stores.sql_statements import Dialect, Parameters, Session


class SqlReader:
    """Answers the questions about candidates from a database."""

    def __init__(self, session: Session, dialect: Dialect, now: datetime) -> None:
        self._session = session
        self._dialect = dialect
        self._now = rows.stored(now)

    async def topics(self) -> list[str]:
        return await self._dialect.topics(self._session)

    async def tenant_after(self, topics: Sequence[str], tenant_id: str | None) -> str | None:
        return await self._dialect.next_tenant(self._session, topics, tenant_id or "")

    async def levels(self, topics: Sequence[str], tenant_id: str | None) -> list[int]:  # noqa: ARG002 - a level that only others use costs one look
        return await self._dialect.levels(self._session, topics)

    async def heads(
        self, topics: Sequence[str], tenant_id: str | None, priority: int | None, limit: int
    ) -> list[Candidate]:
        sql, parameters = self._dialect.heads(topics, tenant_id, priority)
        asked = {**parameters, "now": self._now, "limit": limit}
        return [rows.candidate(row) for row in await self._session.rows(sql, asked)]


async def look(
    session: Session, dialect: Dialect, shift: timedelta
) -> tuple[datetime, list[TaskId]]:
    """The database's time, and the tasks that need a chore."""
    found = await session.rows(dialect["look"], {"shift": dialect.duration(shift), "batch": BATCH})
    now = next(row[0] for row in found if row[0] is not None)
    return rows.sure(now), sorted({TaskId(row[1]) for row in found if row[1] is not None})


async def do_chores(
    session: Session, dialect: Dialect, ids: Sequence[TaskId], now: datetime
) -> list[Locked]:
    """Put these tasks in order; the result are those whose lease had ended."""
    if not ids:
        return []
    found = [rows.locked(row) for row in await session.rows(dialect["lock"], {"ids": list(ids)})]
    chores = sorted_out(found, now)
    for chore in Chore:
        if chore in chores:
            await _do(session, dialect, chore, [each.id for each in chores[chore]], now)
    return [each for each in found if each.lease_until is not None and each.lease_until <= now]


async def _do(
    session: Session, dialect: Dialect, chore: Chore, ids: list[TaskId], now: datetime
) -> None:
    parameters: Parameters = {"ids": ids, "now": rows.stored(now), "reason": None}
    match chore:
        case Chore.READY:
            await session.run(dialect["make_ready"], parameters)
        case Chore.EXPIRE:
            await session.run(dialect["expire"], parameters)
        case Chore.REQUEUE:
            await session.run(dialect["requeue"], parameters)
        case Chore.BURY:
            await bury(session, dialect, ids, None, now)


async def bury(
    session: Session, dialect: Dialect, ids: list[TaskId], reason: str | None, now: datetime
) -> None:
    """Copy locked tasks to the dead letters and mark them dead."""
    parameters: Parameters = {"ids": ids, "now": rows.stored(now), "reason": reason}
    await session.run(dialect["copy_to_dlq"], parameters)
    await session.run(dialect["bury"], parameters)


async def running(session: Session, dialect: Dialect, policy: Policy) -> Room:
    """What is leased now, as far as caps want to know."""
    room = Room(policy)
    if policy.capped:
        for topic, tenant_id, count in await session.rows(dialect["running"]):
            room.count(topic, tenant_id, count)
    return room


class Taker:
    """Leases candidates to one owner until there are enough."""

    def __init__(
        self, session: Session, dialect: Dialect, owner: str, until: datetime, now: datetime
    ) -> None:
        self._session = session
        self._dialect = dialect
        self._owner = owner
        self._until = until
        self._now = now

    async def take(self, scope: Scope, room: Room, turn: Turn, limit: int) -> list[Task]:
        """Tasks in the order in which their candidates came."""
        taken: list[Task] = []
        batch: list[Candidate] = []
        reader = SqlReader(self._session, self._dialect, self._now)
        async for each in candidates(reader, scope, room, turn, limit):
            if not room.admits(each):
                continue
            room.count(each.topic, each.tenant_id)
            batch.append(each)
            if len(taken) + len(batch) == limit:
                taken += await self._lease(batch, room, turn)
                batch = []
            if len(taken) == limit:
                return taken
        return taken + await self._lease(batch, room, turn)

    async def _lease(self, batch: list[Candidate], room: Room, turn: Turn) -> list[Task]:
        if not batch:
            return []
        now = rows.stored(self._now)
        wanted = sorted(each.id for each in batch)
        got = await self._session.rows(self._dialect["ready"], {"ids": wanted, "now": now})
        ids = sorted(row[0] for row in got)
        found: dict[str, Task] = {}
        if ids:
            await self._session.run(
                self._dialect["lease"],
                {"ids": ids, "owner": self._owner, "until": rows.stored(self._until), "now": now},
            )
            leased = await self._session.rows(self._dialect["by_ids"], {"ids": ids})
            found = {row[0]: rows.task(row) for row in leased}
        for each in batch:
            if each.id in found:
                turn.give(each.tenant_id)
            else:
                # Another session was faster.
                room.count(each.topic, each.tenant_id, -1)
        return [found[each.id] for each in batch if each.id in found]
