"""The two databases: how each is filled, emptied, and given to a contestant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import psycopg

from bench.tasks.contestants import Contestant, Naive, Penstock
from penstock.tasks import StoreOptions, open_store
from penstock.tasks.stores.mysql_database import MySQLDatabase
from penstock.tasks.stores.postgres_database import PostgresDatabase
from tests.tasks import seed

if TYPE_CHECKING:
    from penstock.tasks.stores.sql_statements import Session
    from penstock.testing.server import Server
    from tests.tasks.mariadb import MariaDB

_LEASED = (
    "update mq_tasks set status = 'leased', lease_owner = 'bench', lease_until = %(until)s, "
    "attempts = attempts + 1, updated_at = %(now)s"
)
OURS, TURNS, NAIVE = "ours", "turns", "naive"


class Place(Protocol):
    """A server with a database for each contestant."""

    name: str

    def create(self, database: str) -> None: ...
    def drop(self, database: str) -> None: ...
    async def fill(self, database: str, backlog: int, tenants: int) -> None: ...
    async def naive(self, database: str) -> Naive: ...
    def dsn(self, database: str) -> str: ...


async def contestant(place: Place, kind: str, database: str) -> Contestant:
    """A store with empty tables, in a database of its own."""
    place.create(database)
    if kind == NAIVE:
        return await place.naive(database)
    store = open_store(place.dsn(database), StoreOptions(pool_size=2))
    await store.create_tables()
    return Penstock(store, fair=kind == TURNS)


class PostgresPlace:
    name = "PostgreSQL"

    def __init__(self, server: Server) -> None:
        self._server = server
        self.dsn = server.dsn

    def create(self, database: str) -> None:
        self._server.administer(f"create database {database}")

    def drop(self, database: str) -> None:
        self._server.administer(f"drop database {database} (force)")

    async def _run(self, database: str, *statements: str) -> None:
        dsn = self.dsn(database)
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            for statement in statements:
                await connection.execute(statement.encode())

    async def fill(self, database: str, backlog: int, tenants: int) -> None:
        await self._run(
            database,
            f"""insert into mq_tasks (id, topic, tenant_id, payload, priority, status, available_at,
                                      created_at, updated_at)
                select lpad(n::text, 16, '0'), 'mail', 't' || n % {tenants},
                       convert_to(repeat('x', 200), 'utf8'), 20, 'queued', at, at, at
                from generate_series(1, {backlog}) n,
                     lateral (select now() at time zone 'utc' - interval '1 hour'
                                     + n * interval '1 microsecond' as at) as moment""",
            "vacuum analyze mq_tasks",
            "checkpoint",
        )

    async def naive(self, database: str) -> Naive:
        await self._run(database, *seed.POSTGRES, *seed.INDEXES)
        found = PostgresDatabase(StoreOptions(pool_size=2).settings(self.dsn(database)))
        await found.open()
        return Naive(found, f"{_LEASED} where id = any(%(ids)s)")


class MySQLPlace:
    name = "MariaDB"

    def __init__(self, server: MariaDB) -> None:
        self._server = server
        self.dsn = server.dsn

    def create(self, database: str) -> None:
        self._server.administer(f"create database {database}")

    def drop(self, database: str) -> None:
        self._server.administer(f"drop database {database}")

    async def _run(self, database: str, *statements: str) -> None:
        opened = MySQLDatabase(self.dsn(database), StoreOptions(pool_size=1).settings())
        await opened.open()

        async def work(session: Session) -> None:
            for statement in statements:
                await session.run(statement)

        try:
            await opened.directly(work, lasting=True)
        finally:
            await opened.close()

    async def fill(self, database: str, backlog: int, tenants: int) -> None:
        await self._run(
            database,
            f"""insert into mq_tasks (id, topic, tenant_id, payload, priority, status, available_at,
                                      created_at, updated_at)
                select lpad(seq, 16, '0'), 'mail', concat('t', seq mod {tenants}), repeat('x', 200),
                       20, 'queued',
                       utc_timestamp(6) - interval 1 hour + interval seq microsecond,
                       utc_timestamp(6) - interval 1 hour + interval seq microsecond,
                       utc_timestamp(6)
                from seq_1_to_{backlog}""",
            "analyze table mq_tasks",
        )

    async def naive(self, database: str) -> Naive:
        await self._run(database, *seed.MYSQL, *seed.INDEXES)
        found = MySQLDatabase(self.dsn(database), StoreOptions(pool_size=2).settings())
        await found.open()
        # The seed's first TIMESTAMP would move by itself.
        lease = _LEASED.replace(" set ", " set available_at = available_at, ", 1)
        return Naive(found, f"{lease} where id in %(ids)s")
