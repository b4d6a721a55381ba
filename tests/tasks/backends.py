"""The stores that every rule is tried on: PostgreSQL, pgbouncer, MariaDB, and the one in memory."""

from __future__ import annotations

import itertools
import os
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from penstock.tasks import MemoryTaskStore, open_store
from penstock.tasks.options import StoreOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from penstock.tasks.store import TaskStore
    from tests.fixtures.cluster import Server
    from tests.fixtures.pgbouncer import Pgbouncer
    from tests.tasks.mariadb import MariaDB, Outside

_numbers = itertools.count(1)


class Backend(Protocol):
    """A kind of store, with room for many databases."""

    name: str

    def create(self) -> Place: ...
    def drop(self, place: Place) -> None: ...


@dataclass(slots=True)
class Place:
    """One test's database."""

    backend: Backend
    name: str
    dsn: str
    memory: MemoryTaskStore | None = field(default=None, repr=False)

    def store(self, options: StoreOptions | None = None, **more: Any) -> TaskStore:
        """A store on this database, not yet opened; in memory there is one for all."""
        options = options or StoreOptions(**more)
        if self.backend.name == "memory":
            if self.memory is None:
                self.memory = MemoryTaskStore(options)
            self.memory.options = options
            return self.memory
        return open_store(self.dsn, options)

    @asynccontextmanager
    async def opened(self, **more: Any) -> AsyncIterator[TaskStore]:
        store = self.store(**more)
        await store.open()
        try:
            yield store
        finally:
            await store.close()

    @property
    def is_sql(self) -> bool:
        return self.backend.name != "memory"


@dataclass(slots=True)
class Postgres:
    server: Server
    name: str
    template: str | None = None

    def create(self) -> Place:
        name = f"tasks_{next(_numbers)}"
        self.server.administer(f"create database {name}")
        return Place(self, name, self.server.dsn(name))

    def drop(self, place: Place) -> None:
        self.server.administer(f"drop database {place.name} (force)")

    def run(self, place: Place, *statements: str) -> list[Any]:
        with psycopg.connect(self.server.dsn(place.name), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def locking(self, place: Place) -> Iterator[Callable[[list[str]], None]]:
        with psycopg.connect(self.server.dsn(place.name)) as connection:

            def lock(ids: list[str]) -> None:
                connection.execute("select id from mq_tasks where id = any(%s) for update", (ids,))

            yield lock

    @contextmanager
    def blocking(self, place: Place, table: str) -> Iterator[None]:
        """No other session can use the table meanwhile."""
        with psycopg.connect(self.server.dsn(place.name)) as connection:
            connection.execute(f"lock table {table}".encode())
            yield


@dataclass(slots=True)
class Pooled(Postgres):
    """PostgreSQL behind a pooler in transaction mode."""

    pooler: Pgbouncer = field(kw_only=True)

    def create(self) -> Place:
        made = Postgres.create(self)
        return replace(made, dsn=self.pooler.dsn(made.name))


@dataclass(slots=True)
class Maria:
    server: MariaDB | Outside
    name: str = "mariadb"

    def create(self) -> Place:
        # Several sessions may use one server that runs already.
        name = f"tasks_{os.getpid()}_{next(_numbers)}"
        self.server.administer(f"create database {name}")
        return Place(self, name, self.server.dsn(name))

    def drop(self, place: Place) -> None:
        self.server.administer(f"drop database {place.name}")

    def run(self, place: Place, *statements: str) -> list[Any]:
        connection = self.server.connect(place.name)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    @contextmanager
    def locking(self, place: Place) -> Iterator[Callable[[list[str]], None]]:
        connection = self.server.connect(place.name)
        try:
            with connection.cursor() as cursor:
                cursor.execute("set session transaction isolation level read committed")
                cursor.execute("begin")

                def lock(ids: list[str]) -> None:
                    cursor.execute(
                        "select id from mq_tasks force index (primary) where id in %s for update",
                        (ids,),
                    )

                yield lock
                cursor.execute("rollback")
        finally:
            connection.close()

    @contextmanager
    def blocking(self, place: Place, table: str) -> Iterator[None]:
        """No other session can use the table meanwhile."""
        connection = self.server.connect(place.name)
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"lock tables {table} write")
                yield
        finally:
            connection.close()


@dataclass(slots=True)
class Memory:
    name: str = "memory"

    def create(self) -> Place:
        return Place(self, "memory", "memory:")

    def drop(self, place: Place) -> None:
        place.memory = None
