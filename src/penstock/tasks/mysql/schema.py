"""Making and examining the tables on MySQL and MariaDB."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING

from penstock.tasks.errors import TablesMissing
from penstock.tasks.health import Finding
from penstock.tasks.mysql.dialect import Layout
from penstock.tasks.sql import Parameters, Session, load, with_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.tasks.options import Tables

_STATEMENTS = {each.name: each.sql for each in load("penstock.tasks.mysql").values()}
_COLUMNS, _INDEXES = _STATEMENTS["columns"], _STATEMENTS["indexes"]
_OURS = {
    "ready_topic": "reserve reads the queue in claim order",
    "ready_tenant": "turns, caps and reserves for one tenant",
    "due": "delays that are over are found at once",
    "expiring": "expired tasks are found at once",
    "leases": "ended leases are found at once",
}
_TIMES = ("available_at", "lease_until", "expires_at", "last_error_at", "created_at", "updated_at")
_NAMES = ("id", "topic", "tenant_id", "dedupe_key")
_MICROSECONDS = 6
_UPGRADE = "see “A table made by hand” in docs/guides/tasks.md for the ALTER TABLE"


def script(tables: Tables) -> list[str]:
    """What makes the tables, statement by statement."""
    text = resources.files("penstock.tasks.mysql").joinpath("schema.sql")
    sql = with_tables(text.read_text(encoding="utf-8"), tables)
    without_comments = re.sub(r"--[^\n]*", "", sql)
    return [each.strip() for each in without_comments.split(";") if each.strip()]


def _place(table: str) -> Parameters:
    schema, _, name = table.rpartition(".")
    return {"schema": schema or None, "table": name}


async def layout(session: Session, tables: Tables) -> Layout:
    """What the task table offers."""
    columns = {row[0].lower() for row in await session.rows(_COLUMNS, _place(tables.tasks))}
    if not columns:
        raise TablesMissing(
            f"there is no table {tables.tasks}: run `penstock task init` on this database"
        )
    indexes = await session.rows(_INDEXES, _place(tables.tasks))
    return Layout({"waiting", "urgency"} <= columns, frozenset(row[0] for row in indexes))


async def findings(session: Session, tables: Tables) -> list[Finding]:
    """What is good about server and tables, and what should be improved."""
    [(version,)] = await session.rows(_STATEMENTS["version"])
    found = [Finding("server", ok=True, detail=_named(version))]
    columns = await session.rows(_COLUMNS, _place(tables.tasks))
    if not columns:
        return [*found, _missing(tables.tasks)]
    found += [
        _missing(table)
        for table in (tables.dlq, tables.attempts, tables.results)
        if not await session.rows(_COLUMNS, _place(table))
    ]
    kinds = {row[0].lower(): tuple(row[1:]) for row in columns}
    indexes = {row[0] for row in await session.rows(_INDEXES, _place(tables.tasks))}
    return [*found, *_columns(kinds), *_indexes(tables, indexes)]


def _named(version: str) -> str:
    return version if "MariaDB" in version else f"MySQL {version}"


def _missing(table: str) -> Finding:
    return Finding(f"table {table}", ok=False, detail="missing", advice="run penstock task init")


def _columns(kinds: dict[str, tuple[str, int | None, str | None, str]]) -> Iterator[Finding]:
    kind = kinds["payload"][0].lower()
    yield Finding(
        "payload",
        ok=kind == "longblob",
        detail=kind,
        advice=None if kind == "longblob" else f"use LONGBLOB: {kind} stops at 64 kB; {_UPGRADE}",
    )
    short = [
        name
        for name in _TIMES
        if kinds[name][0].lower() != "datetime" or kinds[name][1] != _MICROSECONDS
    ]
    yield Finding(
        "times",
        ok=not short,
        detail="datetime(6)" if not short else f"{', '.join(short)} are not DATETIME(6)",
        advice=None
        if not short
        else f"use DATETIME(6): TIMESTAMP ends in 2038 and has whole seconds; {_UPGRADE}",
    )
    moving = [name for name in _TIMES if "on update" in (kinds[name][3] or "").lower()]
    if moving:
        yield Finding(
            "times that move",
            ok=False,
            detail=f"{', '.join(moving)} change by themselves (ON UPDATE)",
            advice=f"remove ON UPDATE; {_UPGRADE}",
        )
    padded = [name for name in _NAMES if not _is_exact(kinds[name][2])]
    yield Finding(
        "names",
        ok=not padded,
        detail="exact" if not padded else f"{', '.join(padded)} don't tell case or spaces apart",
        advice=None
        if not padded
        else f"use a binary collation (utf8mb4_nopad_bin, utf8mb4_0900_bin); {_UPGRADE}",
    )


def _is_exact(collation: str | None) -> bool:
    """Binary, and without padding: else `key` and `key ` are one."""
    return collation is None or (
        collation.endswith("_bin") and ("nopad" in collation or "0900" in collation)
    )


def _indexes(tables: Tables, indexes: set[str]) -> Iterator[Finding]:
    prefix = tables.tasks.rpartition(".")[2]
    for name, purpose in _OURS.items():
        there = f"{prefix}_{name}" in indexes
        yield Finding(
            f"index {prefix}_{name}",
            ok=there,
            detail=purpose if there else f"missing, and without it slow: {purpose}",
            advice=None if there else f"add it in claim order; {_UPGRADE}",
        )
