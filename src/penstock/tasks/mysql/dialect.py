"""MySQL's statements, fitted to the tables at hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from penstock.tasks.sql import Parameters, Session, load, with_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.tasks.options import Tables


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
            for each in load("penstock.tasks.mysql").values()
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
