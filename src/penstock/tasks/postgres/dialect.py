"""PostgreSQL's statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.tasks.sql import Parameters, load, with_tables

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from penstock.tasks.options import Tables


class PostgresDialect:
    """Statements with the chosen table names."""

    def __init__(self, tables: Tables) -> None:
        self._statements = {
            each.name: with_tables(each.sql, tables)
            for each in load("penstock.tasks.postgres").values()
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

    def next_tenant(self, topics: Sequence[str]) -> tuple[str, Parameters]:
        return self["next_tenant"], {"topics": list(topics)}

    def levels(self, topics: Sequence[str]) -> tuple[str, Parameters]:
        return self["levels"], {"topics": list(topics)}

    def duration(self, value: timedelta) -> timedelta:
        return value
