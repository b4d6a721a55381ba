"""MySQL's statements, fitted to the tables at hand; and those tables, made and examined."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.tasks.errors import TablesMissing
from penstock.tasks.stores.sql_statements import Parameters, Session, load, text_of, with_tables
from penstock.tasks.task import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.tasks.options import Tables

_STATEMENTS = {each.name: each.sql for each in load("mysql_statements.sql").values()}
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
# Less than any priority of 32 bits turned round.
_BELOW_ALL = -(2**40)


@dataclass(frozen=True, slots=True)
class Layout:
    """What the task table offers: ours has computed columns and indexes in claim order."""

    computed: bool = True
    indexes: frozenset[str] = field(default_factory=frozenset)


class MySQLDialect:
    """Statements with the chosen table names, and hints where their indexes exist."""

    def __init__(self, tables: Tables, layout: Layout) -> None:
        self._layout = layout
        self._prefix = tables.tasks.rpartition(".")[2]
        self._texts = {
            each.name: with_tables(each.sql, tables)
            for each in load("mysql_statements.sql").values()
        }
        self._ready = "waiting = 0" if layout.computed else "available_at <= created_at"
        self._filled = {name: self._fill(text) for name, text in self._texts.items()}

    def _fill(self, text: str) -> str:
        words = {
            "ready": self._ready,
            "delayed": "waiting = 1" if self._layout.computed else "available_at > created_at",
            "order": (
                "urgency, created_at, id"
                if self._layout.computed
                else "priority desc, created_at, id"
            ),
        }
        words["urgency"] = "urgency" if self._layout.computed else "(0 - priority)"
        for name in ("ready_topic", "ready_tenant", "due", "expiring", "leases"):
            words[name] = self._hint(name)
        for name, value in words.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    def _hint(self, name: str) -> str:
        index = f"{self._prefix}_{name}"
        return f"force index ({index})" if index in self._layout.indexes else ""

    def __getitem__(self, name: str) -> str:
        return self._filled[name]

    def heads(
        self, topics: Sequence[str], tenant_id: str | None, priority: int | None
    ) -> tuple[str, Parameters]:
        narrower = ["true"]
        if tenant_id is not None:
            narrower.append("tenant_id = %(tenant_id)s")
        if priority is not None:
            narrower.append(
                "urgency = 0 - %(priority)s" if self._layout.computed else "priority = %(priority)s"
            )
        text = self["heads"].replace("{narrower}", " and ".join(narrower))
        hint = self._hint("ready_topic" if tenant_id is None else "ready_tenant")
        sql, parameters = _for_each(text.replace("{index}", hint), topics)
        return sql, {**parameters, "tenant_id": tenant_id, "priority": priority}

    async def topics(self, session: Session) -> list[str]:
        found: list[str] = []
        while True:
            after = found[-1] if found else ""
            [(topic,)] = await session.rows(self["next_topic"], {"after": after})
            if topic is None:
                return found
            found.append(topic)

    async def next_tenant(self, session: Session, topics: Sequence[str], after: str) -> str | None:
        found: str | None = await self._lowest(session, "next_tenant", topics, after)
        return found

    async def levels(self, session: Session, topics: Sequence[str]) -> list[int]:
        found: list[int] = []
        after = _BELOW_ALL
        while True:
            urgency: int | None = await self._lowest(session, "next_level", topics, after)
            if urgency is None:
                return found
            found.append(-urgency)
            after = urgency

    async def _lowest(
        self, session: Session, name: str, topics: Sequence[str], after: str | int
    ) -> Any:
        sql, parameters = _for_each(self[name], topics)
        column = "tenant_id" if name == "next_tenant" else "urgency"
        asked = self["lowest"].replace("{column}", column).replace("{each}", sql)
        [(found,)] = await session.rows(asked, {**parameters, "after": after})
        return found

    def insert(self, values: Sequence[str]) -> str:
        return self["insert"].replace("{values}", ",\n".join(values))

    def duration(self, value: timedelta) -> int:
        """Microseconds."""
        return value // timedelta(microseconds=1)


def _for_each(text: str, topics: Sequence[str]) -> tuple[str, Parameters]:
    """The same query for each topic, joined: each reads one place of an index."""
    names = {f"topic_{number}": topic for number, topic in enumerate(topics)}
    each = [text.replace("%(topic)s", f"%({name})s") for name in names]
    return "\nunion all\n".join(each), names


def script(tables: Tables) -> list[str]:
    """What makes the tables, statement by statement."""
    sql = with_tables(text_of("mysql_schema.sql"), tables)
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
