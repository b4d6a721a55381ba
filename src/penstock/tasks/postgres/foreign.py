"""Enqueuing in a transaction that the caller has open: psycopg, asyncpg, SQLAlchemy, Django."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.client.calls import Call
from penstock.postgres import foreign

if TYPE_CHECKING:
    from penstock.tasks.sql import Parameters, Row

_NAMED = re.compile(r"%\((\w+)\)s")


class ForeignSession:
    """Their connection, as ours: every statement gives rows, and nothing is retried."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        names = _NAMED.findall(sql)
        values = tuple((parameters or {})[name] for name in names)
        call = Call(_NAMED.sub("%s", sql), values, lambda found: [tuple(row) for row in found])
        return await foreign.run_async(self._connection, call)

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        return len(await self.rows(sql, parameters))
