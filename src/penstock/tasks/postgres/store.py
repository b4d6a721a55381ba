"""Tasks on PostgreSQL."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.tasks import reserving, rows
from penstock.tasks.postgres import schema
from penstock.tasks.postgres.dialect import PostgresDialect
from penstock.tasks.postgres.foreign import ForeignSession
from penstock.tasks.postgres.listening import Listener, channel_of
from penstock.tasks.postgres.session import PostgresDatabase, PostgresSession
from penstock.tasks.retrying import Try
from penstock.tasks.sql_store import SqlTaskStore, Work
from penstock.tasks.task import NewTask, Task, TaskId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from penstock.tasks.chores import Locked
    from penstock.tasks.health import Finding
    from penstock.tasks.options import StoreOptions, Wish
    from penstock.tasks.sql import Parameters, Session

T = TypeVar("T")

_INSERTED_AT_ONCE = 1000
# Some rows are being taken by others at this moment: look at more than are needed.
_SLACK = 100


class PostgresTaskStore(SqlTaskStore):
    """`async with PostgresTaskStore("postgresql://…") as store: …`"""

    def __init__(self, dsn: str, options: StoreOptions | None = None) -> None:
        super().__init__(options)
        self._database = PostgresDatabase(dsn, self.options)
        self._dialect: PostgresDialect = PostgresDialect(self.options.tables)
        self._listener: Listener | None = None
        self._channel = ""

    async def open(self) -> Self:
        await self._database.open()
        try:
            await self._examine()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.close()
        await self._database.close()

    async def create_tables(self) -> None:
        """Works on a store that was not opened as well: there are no tables to find yet."""
        await self._database.open()

        async def work(session: Session, _: Try) -> int:
            return await session.run(schema.script(self.options.tables))

        await self._atomically(work)
        await self._examine()

    async def check(self) -> list[Finding]:
        await self._database.open()

        async def work(session: Session, _: Try) -> list[Finding]:
            return await schema.findings(session, self.options.tables)

        return await self._directly(work)

    async def _examine(self) -> None:
        async def work(session: Session, _: Try) -> tuple[schema.Layout, str]:
            [row] = await session.rows("select current_database() || '.' || current_schema()")
            return await schema.layout(session, self.options.tables), row[0]

        layout, place = await self._directly(work)
        self.wakes = layout.wakes
        self._channel = channel_of(self.options.tables.tasks, place)
        self._lock_key = zlib.crc32(self._channel.encode()) - 2**31
        if self.wakes and self._listener is None:
            self._listener = Listener(self._database.dsn, self._dialect, self._channel)

    async def wait(self, at_most: timedelta) -> bool:
        if self._listener is None:
            return await super().wait(at_most)
        return await self._listener.wait(at_most)

    async def _atomically(self, work: Work[T], *, capped: bool = False) -> T:
        if not capped:
            return await self._database.atomically(work)

        async def one_at_a_time(session: Session, attempt: Try) -> T:
            await session.rows(self._dialect["cap_lock"], {"key": self._lock_key})
            return await work(session, attempt)

        return await self._database.atomically(one_at_a_time)

    async def _directly(self, work: Work[T]) -> T:
        return await self._database.directly(work)

    # Insert

    async def _insert_rows(self, session: Session, tasks: Sequence[NewTask]) -> set[TaskId]:
        inserted: set[TaskId] = set()
        for start in range(0, len(tasks), _INSERTED_AT_ONCE):
            some = tasks[start : start + _INSERTED_AT_ONCE]
            found = await session.rows(self._dialect["insert"], {**self._timed(), **_arrays(some)})
            inserted.update(TaskId(row[0]) for row in found)
        if inserted and self.wakes:
            await session.rows(self._dialect["notify"], {"channel": self._channel})
        return inserted

    async def _insert_foreign(
        self, connection: Any, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        return await self._insert(
            ForeignSession(connection), Try(), tasks, skip_duplicates=skip_duplicates
        )

    # Reserve

    async def _run_reserve(self, work: Work[T], wish: Wish) -> T:
        if wish.plain:
            # Two statements that stand by themselves: no transaction around them is needed.
            return await self._directly(work)
        return await super()._run_reserve(work, wish)

    async def _reserve(self, session: Session, wish: Wish) -> tuple[list[Task], list[Locked]]:
        if not wish.plain:
            return await super()._reserve(session, wish)
        now, ids = await reserving.look(session, self._dialect, self._shift)
        ended: list[Locked] = []
        if ids:
            assert isinstance(session, PostgresSession)
            async with session.transaction():
                ended = await reserving.do_chores(session, self._dialect, ids, now)
        wanted = await self._wanted_topics(session, wish.topics, now)
        return (await self._take(session, wanted, wish, now) if wanted else []), ended

    async def _take(
        self, session: Session, topics: list[str], wish: Wish, now: datetime
    ) -> list[Task]:
        """One statement takes them all; another only where a crowd took the whole window."""
        taken: list[Task] = []
        window = wish.limit + _SLACK
        while True:
            found = await session.rows(
                self._dialect["take"],
                {
                    "topics": topics,
                    "owner": wish.owner,
                    "now": rows.stored(now),
                    "until": rows.stored(now + wish.lease),
                    "limit": wish.limit - len(taken),
                    "window": window,
                },
            )
            taken += [rows.task(row[2:]) for row in found if row[2] is not None]
            if len(taken) == wish.limit or found[0][0] < window:
                return sorted(taken, key=lambda each: (-each.priority, each.created_at, each.id))
            window *= 4


def _arrays(tasks: Sequence[NewTask]) -> Parameters:
    return {
        "ids": [task.id for task in tasks],
        "topics": [task.topic for task in tasks],
        "tenants": [task.tenant_id for task in tasks],
        "payloads": [task.payload for task in tasks],
        "metas": [task.meta_text() for task in tasks],
        "priorities": [int(task.priority) for task in tasks],
        "keys": [task.dedupe_key for task in tasks],
        "max_attempts": [task.max_attempts for task in tasks],
        "delays": [task.delay for task in tasks],
        "available": [rows.stored(task.available_at) for task in tasks],
        "expires_in": [task.expires_in for task in tasks],
        "expires": [rows.stored(task.expires_at) for task in tasks],
    }
