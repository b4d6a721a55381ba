"""Tasks on PostgreSQL."""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.tasks.stores import postgres_dialect, sql_reserve
from penstock.tasks.stores import sql_rows as rows
from penstock.tasks.stores.postgres_database import (
    ForeignSession,
    PostgresDatabase,
    PostgresSession,
    Wakeups,
)
from penstock.tasks.stores.postgres_dialect import PostgresDialect
from penstock.tasks.stores.sql_store import SqlTaskStore, Work
from penstock.tasks.task import NewTask, Task, TaskId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from penstock.tasks.options import StoreOptions, Wish
    from penstock.tasks.stores.sql_statements import Parameters, Session
    from penstock.tasks.stores.store_rules import Locked
    from penstock.tasks.task import Finding

T = TypeVar("T")

_INSERTED_AT_ONCE = 1000
# Some rows are being taken by others at this moment: look at more than are needed.
_SLACK = 100


class PostgresTaskStore(SqlTaskStore):
    """`async with PostgresTaskStore("postgresql://…") as store: …`"""

    def __init__(self, dsn: str, options: StoreOptions | None = None) -> None:
        super().__init__(options)
        self._database = PostgresDatabase(self.options.settings(dsn))
        self._dialect: PostgresDialect = PostgresDialect(self.options.tables)
        self._wakeups: Wakeups | None = None
        self._notifies = False
        self._channel = ""
        self._lock_key = 0

    async def open(self) -> Self:
        await self._database.open()
        try:
            await self._examine()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        wakeups, self._wakeups = self._wakeups, None
        if wakeups is not None:
            await wakeups.close()
        await self._database.close()

    async def create_tables(self) -> None:
        """Works on a store that was not opened as well: there are no tables to find yet."""
        await self._database.open()

        async def work(session: Session) -> int:
            return await session.run(postgres_dialect.script(self.options.tables))

        await self._atomically(work, lasting=True)
        await self._examine()

    async def check(self) -> list[Finding]:
        await self._database.open()

        async def work(session: Session) -> list[Finding]:
            return await postgres_dialect.findings(session, self.options.tables)

        return await self._directly(work)

    async def _examine(self) -> None:
        async def work(session: Session) -> tuple[bool, str]:
            [row] = await session.rows("select current_database() || '.' || current_schema()")
            return await postgres_dialect.can_notify(session, self.options.tables), row[0]

        self._notifies, place = await self._directly(work)
        self.wakes = self._notifies and not self._database.pooled
        self._channel = _channel_of(self.options.tables.tasks, place)
        self._lock_key = zlib.crc32(self._channel.encode()) - 2**31
        if self.wakes and self._wakeups is None:
            self._wakeups = self._database.wakeups(self._dialect, self._channel)

    async def wait(self, at_most: timedelta) -> bool:
        if self._wakeups is None:
            return await super().wait(at_most)
        return await self._wakeups.wait(at_most)

    async def _atomically(self, work: Work[T], *, capped: bool = False, lasting: bool = False) -> T:
        if not capped:
            return await self._database.atomically(work, lasting=lasting)

        async def one_at_a_time(session: Session) -> T:
            await session.rows(self._dialect["cap_lock"], {"key": self._lock_key})
            return await work(session)

        return await self._database.atomically(one_at_a_time, lasting=lasting)

    async def _directly(self, work: Work[T]) -> T:
        return await self._database.directly(work)

    # Insert

    async def _insert_rows(self, session: Session, tasks: Sequence[NewTask]) -> set[TaskId]:
        inserted: set[TaskId] = set()
        for start in range(0, len(tasks), _INSERTED_AT_ONCE):
            some = tasks[start : start + _INSERTED_AT_ONCE]
            found = await session.rows(self._dialect["insert"], {**self._timed(), **_arrays(some)})
            inserted.update(TaskId(row[0]) for row in found)
        if inserted and self._notifies:
            await session.rows(self._dialect["notify"], {"channel": self._channel})
        return inserted

    async def _insert_foreign(
        self, connection: Any, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        session = ForeignSession(connection)
        return await self._insert(session, tasks, skip_duplicates=skip_duplicates)

    # Reserve

    async def _run_reserve(self, work: Work[T], wish: Wish) -> T:
        if wish.plain:
            # Two statements that stand by themselves: no transaction around them is needed.
            return await self._directly(work)
        return await super()._run_reserve(work, wish)

    async def _reserve(self, session: Session, wish: Wish) -> tuple[list[Task], list[Locked]]:
        if not wish.plain:
            return await super()._reserve(session, wish)
        now, ids = await sql_reserve.look(session, self._dialect, self._shift)
        ended: list[Locked] = []
        if ids:
            assert isinstance(session, PostgresSession)
            async with session.transaction():
                ended = await sql_reserve.do_chores(session, self._dialect, ids, now)
        wanted = await self._wanted_topics(session, wish.topics)
        return (await self._take(session, wanted, wish, now) if wanted else []), ended

    async def _take(
        self, session: Session, topics: list[str], wish: Wish, now: datetime
    ) -> list[Task]:
        """One statement takes them all; another only where others took the whole window."""
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

    # Old tasks

    async def _purge_some(self, session: Session, parameters: Parameters) -> int:
        return await session.run(self._dialect["purge"], parameters)


def _channel_of(table: str, schema: str) -> str:
    """A short name, whatever the table is called."""
    digest = hashlib.sha256(f"{schema}.{table}".encode()).hexdigest()[:24]
    return f"penstock_tasks_{digest}"


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
