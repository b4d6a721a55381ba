"""PostgreSQL's statements, and the tables that they need: made and examined here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks.errors import TablesMissing
from penstock.tasks.stores.sql_statements import Parameters, Session, load, text_of, with_tables
from penstock.tasks.task import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

    from penstock.tasks.options import Tables

OLDEST = 140000
# What each index of ours begins with, and what goes slowly without it.
_INDEXES = {
    "(topic, priority DESC, created_at": "reserve reads the queue in claim order",
    "(topic, tenant_id, priority DESC, created_at": "turns, caps and reserves for one tenant",
    "(available_at)": "delays that are over are found at once",
    "(expires_at)": "expired tasks are found at once",
    "(lease_until)": "ended leases are found at once",
}

_COLUMNS = """
select a.attname::text, format_type(a.atttypid, a.atttypmod)
from pg_attribute a
where a.attrelid = to_regclass(%(table)s) and a.attnum > 0 and not a.attisdropped
"""
_INDEX_TEXTS = """
select pg_get_indexdef(indexrelid) from pg_index
where indrelid = to_regclass(%(table)s) and indisvalid
"""
_EXISTS = "select to_regclass(%(table)s) is not null"


class PostgresDialect:
    """Statements with the chosen table names."""

    def __init__(self, tables: Tables) -> None:
        self._statements = {
            each.name: with_tables(each.sql, tables)
            for each in load("postgres_statements.sql").values()
        }

    def __getitem__(self, name: str) -> str:
        return self._statements[name]

    def heads(
        self, topics: Sequence[str], tenant_id: str | None, priority: int | None
    ) -> tuple[str, Parameters]:
        name = "heads"
        if tenant_id is not None:
            name += "_of_tenant" if priority is None else "_of_tenant_and_level"
        elif priority is not None:
            name += "_of_level"
        parameters: Parameters = {
            "topics": list(topics),
            "tenant_id": tenant_id,
            "priority": priority,
        }
        return self[name], parameters

    async def topics(self, session: Session) -> list[str]:
        return [row[0] for row in await session.rows(self["topics"])]

    async def next_tenant(self, session: Session, topics: Sequence[str], after: str) -> str | None:
        [row] = await session.rows(self["next_tenant"], {"topics": list(topics), "after": after})
        found: str | None = row[0]
        return found

    async def levels(self, session: Session, topics: Sequence[str]) -> list[int]:
        return [row[0] for row in await session.rows(self["levels"], {"topics": list(topics)})]

    def duration(self, value: timedelta) -> timedelta:
        return value


def script(tables: Tables) -> str:
    """What makes the tables."""
    return with_tables(text_of("postgres_schema.sql"), tables)


async def can_notify(session: Session, tables: Tables) -> bool:
    """Whether stores that wait can register; raises TablesMissing without a task table."""
    if not await _exists(session, tables.tasks):
        raise TablesMissing(
            f"there is no table {tables.tasks}: run `penstock task init` on this database"
        )
    return await _exists(session, tables.waiting)


async def _exists(session: Session, table: str) -> bool:
    [row] = await session.rows(_EXISTS, {"table": table})
    return bool(row[0])


async def findings(session: Session, tables: Tables) -> list[Finding]:
    """What is good about server and tables, and what should be improved."""
    [row] = await session.rows("select current_setting('server_version_num')::int, version()")
    found = [
        Finding(
            "server",
            ok=row[0] >= OLDEST,
            detail=row[1].partition(" on ")[0],
            advice=None if row[0] >= OLDEST else "tasks need PostgreSQL 14 or newer",
        )
    ]
    columns: dict[str, str] = dict(await session.rows(_COLUMNS, {"table": tables.tasks}))
    if not columns:
        return [*found, _missing(tables.tasks)]
    found += [
        _missing(table)
        for table in (tables.dlq, tables.attempts, tables.results, tables.waiting)
        if not await _exists(session, table)
    ]
    indexes = [row[0] for row in await session.rows(_INDEX_TEXTS, {"table": tables.tasks})]
    return [*found, *_columns(columns), *_indexes(indexes)]


def _missing(table: str) -> Finding:
    return Finding(f"table {table}", ok=False, detail="missing", advice="run penstock task init")


def _columns(columns: dict[str, str]) -> Iterator[Finding]:
    zoned = [name for name, kind in columns.items() if kind == "timestamp with time zone"]
    if zoned:
        yield Finding(
            "times",
            ok=False,
            detail=f"{', '.join(zoned)} have a time zone",
            advice="use timestamp, without time zone: all times are UTC",
        )
    if columns.get("payload") != "bytea":
        yield Finding("payload", ok=False, detail=str(columns.get("payload")), advice="use bytea")


def _indexes(indexes: list[str]) -> Iterator[Finding]:
    for words, purpose in _INDEXES.items():
        there = any(words in text for text in indexes)
        yield Finding(
            f"index {words.rstrip(')')})" if not words.endswith(")") else f"index {words}",
            ok=there,
            detail=purpose if there else f"missing, and without it slow: {purpose}",
            advice=None if there else "run penstock task init, which adds what is missing",
        )
    unique = any("UNIQUE" in text and "(tenant_id, dedupe_key)" in text for text in indexes)
    if not unique:
        yield Finding(
            "dedupe keys",
            ok=False,
            detail="nothing keeps (tenant_id, dedupe_key) unique",
            advice="run penstock task init, which adds the index",
        )
    slow = [text for text in indexes if "(status, available_at, priority, created_at)" in text]
    if slow:
        yield Finding(
            "index idx_mq_tasks_ready",
            ok=False,
            detail="not in claim order: it is written for every change and never of use",
            advice="drop it after penstock task init",
        )
