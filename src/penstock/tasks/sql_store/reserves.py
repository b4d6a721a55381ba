"""How tasks are leased from a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks import reserving
from penstock.tasks.choosing import Scope, Turn
from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy, StoreOptions, Wish
from penstock.tasks.sql_store.attempt_log import AttemptLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from penstock.tasks.chores import Locked
    from penstock.tasks.retrying import Try
    from penstock.tasks.sql import Session
    from penstock.tasks.sql_store.base import T, Work
    from penstock.tasks.task import Task


class Reserves(AttemptLog):
    """Reserve: chores first, then what the wish is for."""

    def __init__(self, options: StoreOptions | None = None) -> None:
        super().__init__(options)
        self._turn = Turn()

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

        async def work(session: Session, _: Try) -> tuple[list[Task], list[Locked]]:
            return await self._reserve(session, wish)

        taken, ended = await self._run_reserve(work, wish)
        await self._log_ended(ended)
        return taken

    async def _run_reserve(self, work: Work[T], wish: Wish) -> T:
        return await self._atomically(work, capped=wish.policy.capped)

    async def _reserve(self, session: Session, wish: Wish) -> tuple[list[Task], list[Locked]]:
        dialect = self._dialect
        now, ids = await reserving.look(session, dialect, self._shift)
        ended = await reserving.do_chores(session, dialect, ids, now)
        wanted = await self._wanted_topics(session, wish.topics, now)
        room = await reserving.running(session, dialect, wish.policy)
        open_topics = tuple(topic for topic in wanted if not room.topic_full(topic))
        if not open_topics:
            return [], ended
        scope = Scope(open_topics, wish.tenant_id, wish.policy, now)
        taker = reserving.Taker(session, dialect, wish.owner, now + wish.lease, now)
        return await taker.take(scope, room, self._turn, wish.limit), ended

    async def _wanted_topics(
        self, session: Session, topics: Sequence[str] | None, now: datetime
    ) -> list[str]:
        if topics is not None:
            return list(dict.fromkeys(topics))
        return await reserving.SqlReader(session, self._dialect, now).topics()
