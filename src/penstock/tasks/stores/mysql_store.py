"""Tasks on MySQL 8 and MariaDB 10.6+."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.errors import UnusableConnection
from penstock.tasks.stores import mysql_dialect
from penstock.tasks.stores import sql_rows as rows
from penstock.tasks.stores.mysql_database import DUPLICATE, MySQLDatabase, code_of
from penstock.tasks.stores.mysql_dialect import Layout, MySQLDialect
from penstock.tasks.stores.sql_store import SqlTaskStore, Work
from penstock.tasks.stores.store_rules import key_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.tasks.options import StoreOptions
    from penstock.tasks.stores.sql_statements import Parameters, Session
    from penstock.tasks.task import Finding, NewTask, TaskId

T = TypeVar("T")

# One statement must fit into max_allowed_packet, whose default is 16 MiB on MariaDB.
_INSERTED_AT_ONCE = 500
_BYTES_AT_ONCE = 4_000_000


class MySQLTaskStore(SqlTaskStore):
    """`async with MySQLTaskStore("mysql://user@host/database") as store: …`"""

    def __init__(self, dsn: str, options: StoreOptions | None = None) -> None:
        super().__init__(options)
        self._database = MySQLDatabase(dsn, self.options.settings())
        self._dialect: MySQLDialect = MySQLDialect(self.options.tables, Layout())
        place = f"{self._database.address.database}.{self.options.tables.tasks}"
        self._lock_name = f"penstock_{hashlib.sha256(place.encode()).hexdigest()[:40]}"

    async def open(self) -> Self:
        await self._database.open()
        try:
            await self._examine()
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        await self._database.close()

    async def create_tables(self) -> None:
        """Works on a store that was not opened as well: there are no tables to find yet."""
        await self._database.open()

        async def work(session: Session) -> None:
            for statement in mysql_dialect.script(self.options.tables):
                await session.run(statement)

        await self._database.directly(work, lasting=True)
        await self._examine()

    async def check(self) -> list[Finding]:
        await self._database.open()

        async def work(session: Session) -> list[Finding]:
            return await mysql_dialect.findings(session, self.options.tables)

        return await self._directly(work)

    async def _examine(self) -> None:
        async def work(session: Session) -> Layout:
            found = await mysql_dialect.layout(session, self.options.tables)
            await session.rows(self._dialect["probe"])
            return found

        self._dialect = MySQLDialect(self.options.tables, await self._directly(work))

    async def _atomically(self, work: Work[T], *, capped: bool = False, lasting: bool = False) -> T:
        lock = self._lock_name if capped else None
        return await self._database.atomically(work, lock=lock, lasting=lasting)

    async def _directly(self, work: Work[T]) -> T:
        return await self._database.directly(work)

    # Insert

    async def _insert_rows(self, session: Session, tasks: Sequence[NewTask]) -> set[TaskId]:
        inserted: set[TaskId] = set()
        for some in _portions(tasks):
            inserted |= await self._insert_some(session, some)
        return inserted

    async def _insert_some(self, session: Session, tasks: Sequence[NewTask]) -> set[TaskId]:
        """All at once; where one of them collides, one by one."""
        try:
            sql, parameters = self._insertion(tasks)
            await session.run(sql, parameters)
        except Exception as problem:
            if code_of(problem) != DUPLICATE:
                raise
            if len(tasks) == 1:
                return set()
            inserted: set[TaskId] = set()
            for task in sorted(tasks, key=key_order):
                inserted |= await self._insert_some(session, [task])
            return inserted
        return {task.id for task in tasks}

    def _insertion(self, tasks: Sequence[NewTask]) -> tuple[str, Parameters]:
        values: list[str] = []
        parameters: Parameters = {}
        # Tasks of one call differ by microseconds, so that they keep their order; they are written
        # in the order of their keys, so that two calls don't wait for each other crosswise.
        for number, task in sorted(enumerate(tasks), key=lambda each: key_order(each[1])):
            created = self._moment(timedelta(microseconds=number))
            words = {name: f"%({name}_{number})s" for name in _GIVEN}
            values.append(
                f"({words['id']}, {words['topic']}, {words['tenant_id']}, {words['payload']}, "
                f"{words['meta']}, {words['priority']}, {words['dedupe_key']}, 'queued', 0, "
                f"{words['max_attempts']}, {self._available(task, created, words)}, "
                f"{self._expires(task, number, words)}, {created}, {created})"
            )
            parameters.update({f"{name}_{number}": value for name, value in _values(task).items()})
        return self._dialect.insert(values), parameters

    def _moment(self, later: timedelta) -> str:
        return (
            f"utc_timestamp(6) + interval {self._dialect.duration(self._shift + later)} microsecond"
        )

    def _available(self, task: NewTask, created: str, words: dict[str, str]) -> str:
        if task.delay:
            return f"{created} + interval {self._dialect.duration(task.delay)} microsecond"
        if task.available_at is not None:
            return f"greatest(cast({words['available_at']} as datetime(6)), {created})"
        return created

    def _expires(self, task: NewTask, number: int, words: dict[str, str]) -> str:
        if task.expires_in is not None:
            return self._moment(timedelta(microseconds=number) + task.expires_in)
        return words["expires_at"]

    async def _insert_foreign(
        self,
        connection: Any,
        tasks: Sequence[NewTask],  # noqa: ARG002
        *,
        skip_duplicates: bool,  # noqa: ARG002
    ) -> list[TaskId]:
        raise UnusableConnection(
            f"connection= is a {type(connection).__qualname__}, but enqueuing in the caller's own "
            "transaction is for PostgreSQL: leave it out, and enqueue with a dedupe_key"
        )

    # Old tasks: MySQL can't delete by a subquery on the same table.

    async def _purge_some(self, session: Session, parameters: Parameters) -> int:
        found = await session.rows(self._dialect["purgeable"], parameters)
        if not found:
            return 0
        ids = sorted(row[0] for row in found)
        return await session.run(
            self._dialect["purge"], {"ids": ids, "statuses": parameters["statuses"]}
        )


_GIVEN = (
    "id",
    "topic",
    "tenant_id",
    "payload",
    "meta",
    "priority",
    "dedupe_key",
    "max_attempts",
    "available_at",
    "expires_at",
)


def _values(task: NewTask) -> Parameters:
    return {
        "id": str(task.id),
        "topic": task.topic,
        "tenant_id": task.tenant_id,
        "payload": task.payload,
        "meta": task.meta_text(),
        "priority": int(task.priority),
        "dedupe_key": task.dedupe_key,
        "max_attempts": task.max_attempts,
        "available_at": rows.stored(task.available_at),
        "expires_at": rows.stored(task.expires_at),
    }


def _portions(tasks: Sequence[NewTask]) -> list[list[NewTask]]:
    """Portions that fit into one statement."""
    found: list[list[NewTask]] = [[]]
    size = 0
    for task in tasks:
        size += len(task.payload)
        if len(found[-1]) >= _INSERTED_AT_ONCE or (found[-1] and size > _BYTES_AT_ONCE):
            found.append([])
            size = len(task.payload)
        found[-1].append(task)
    return found
