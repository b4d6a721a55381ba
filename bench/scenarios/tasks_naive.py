"""The naive task store, on the seed's own tables, and how each database is filled and emptied."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from penstock.tasks.mysql.session import MySQLDatabase, MySQLSession
from penstock.tasks.options import StoreOptions
from penstock.tasks.postgres.session import PostgresDatabase
from penstock.tasks.task import new_task_id
from tests.tasks import seed

if TYPE_CHECKING:
    from collections.abc import Sequence

LEASE = timedelta(minutes=30)
_PAYLOAD = b"x" * 200
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
values (%(id)s, 'mail', 'default', %(payload)s, 20, 'queued', %(now)s, %(now)s, %(now)s)
"""
_TABLES = ("mq_tasks", "mq_task_dlq", "mq_task_attempts", "mq_task_results", "mq_task_waiting")


class Place(Protocol):
    """One database."""

    dsn: str
    name: str

    async def fill(self, table: str, backlog: int, tenants: int) -> None: ...
    async def clear(self) -> None: ...
    async def naive(self) -> Naive: ...


def _now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


class Naive:
    """Select for update, update, ack: one row at a time, as it comes to mind."""

    def __init__(self, database: Any, lease: str) -> None:
        self._database = database
        self._lease = lease

    async def enqueue(self, count: int) -> None:
        async def work(session: Any, _: Any) -> None:
            for _ in range(count):
                row = {"id": new_task_id(), "payload": _PAYLOAD, "now": _now()}
                await session.run(_INSERT, row)

        await self._database.atomically(work)

    async def reserve(self, limit: int) -> Sequence[object]:
        async def work(session: Any, _: Any) -> list[object]:
            found = await session.rows(_RESERVE, {"now": _now(), "limit": limit})
            now = _now()
            parameters = {"ids": [row[0] for row in found], "until": now + LEASE, "now": now}
            await session.run(self._lease, parameters)
            return list(found)

        return await self._database.atomically(work)

    async def ack(self, taken: Sequence[object]) -> None:
        async def work(session: Any, _: Any) -> None:
            await session.run(_ACK, {"id": row[0], "now": _now()})

        for row in taken:  # noqa: B007 - read by work
            await self._database.directly(work)

    async def close(self) -> None:
        await self._database.close()


class PostgresPlace:
    name = "PostgreSQL"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    async def run(self, *statements: str) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                await connection.execute(statement.encode())

    async def fill(self, table: str, backlog: int, tenants: int) -> None:
        await self.run(
            f"""insert into {table} (id, topic, tenant_id, payload, priority, status, available_at,
                                     created_at, updated_at)
                select lpad(n::text, 16, '0'), 'mail', 't' || n % {tenants},
                       convert_to(repeat('x', 200), 'utf8'), 20, 'queued', at, at, at
                from generate_series(1, {backlog}) n,
                     lateral (select now() at time zone 'utc' - interval '1 hour'
                                     + n * interval '1 microsecond' as at) as moment""",
            f"vacuum analyze {table}",
        )

    async def clear(self) -> None:
        await self.run(*(f"drop table if exists {name}" for name in _TABLES))

    async def naive(self) -> Naive:
        await self.run(*seed.POSTGRES, *seed.INDEXES)
        database = PostgresDatabase(self.dsn, StoreOptions(pool_size=2))
        await database.open()
        return Naive(
            database,
            "update mq_tasks set status = 'leased', lease_owner = 'bench', "
            "lease_until = %(until)s, attempts = attempts + 1, updated_at = %(now)s "
            "where id = any(%(ids)s)",
        )


class MySQLPlace:
    name = "MariaDB"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    async def run(self, *statements: str) -> None:
        database = MySQLDatabase(self.dsn, StoreOptions(pool_size=1))
        await database.open()

        async def work(session: MySQLSession, _: Any) -> None:
            for statement in statements:
                await session.run(statement)

        try:
            await database.directly(work)  # type: ignore[arg-type]
        finally:
            await database.close()

    async def fill(self, table: str, backlog: int, tenants: int) -> None:
        await self.run(
            f"""insert into {table} (id, topic, tenant_id, payload, priority, status, available_at,
                                     created_at, updated_at)
                select lpad(seq, 16, '0'), 'mail', concat('t', seq mod {tenants}), repeat('x', 200),
                       20, 'queued',
                       utc_timestamp(6) - interval 1 hour + interval seq microsecond,
                       utc_timestamp(6) - interval 1 hour + interval seq microsecond,
                       utc_timestamp(6)
                from seq_1_to_{backlog}""",
            f"analyze table {table}",
        )

    async def clear(self) -> None:
        await self.run(*(f"drop table if exists {name}" for name in _TABLES))

    async def naive(self) -> Naive:
        await self.run(*seed.MYSQL, *seed.INDEXES)
        database = MySQLDatabase(self.dsn, StoreOptions(pool_size=2))
        await database.open()
        return Naive(
            database,
            "update mq_tasks set status = 'leased', available_at = available_at, "
            "lease_owner = 'bench', lease_until = %(until)s, attempts = attempts + 1, "
            "updated_at = %(now)s where id in %(ids)s",
        )
