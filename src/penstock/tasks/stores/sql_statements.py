"""Statements by name, read from the `…_statements.sql` of a database, with the chosen table names.

A statement stands below a line `-- name`; further comment lines belong to it and give its reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.tasks.options import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import timedelta

Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = dict[str, Any]

_HEADING = re.compile(r"^-- ([a-z_]+)$")
_DEFAULTS = Tables()


class Session(Protocol):
    """A connection while one piece of work has it."""

    outcome_unknown: bool
    """An earlier run of this work lost its connection: what it did may have been committed."""

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        """Run a query."""
        ...

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        """Run a change; the number of rows that it found."""
        ...


class Dialect(Protocol):
    """A database's statements, and the one whose words depend on what is asked."""

    def __getitem__(self, name: str) -> str: ...

    def heads(
        self, topics: Sequence[str], tenant_id: str | None, priority: int | None
    ) -> tuple[str, Parameters]:
        """The query for the first ready tasks of each topic; takes `now` and `limit` as well."""
        ...

    async def topics(self, session: Session) -> list[str]:
        """All topics with ready tasks, by a few looks at an index."""
        ...

    async def next_tenant(self, session: Session, topics: Sequence[str], after: str) -> str | None:
        """The next tenant by name with ready tasks in these topics."""
        ...

    async def levels(self, session: Session, topics: Sequence[str]) -> list[int]:
        """All priorities of ready tasks in these topics."""
        ...

    def duration(self, value: timedelta) -> object:
        """A duration as a parameter."""
        ...


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement and why it is as it is."""

    name: str
    reason: str
    sql: str


def load(file: str) -> dict[str, Statement]:
    """The statements of a file of this package, in its order."""
    return {each.name: each for each in _parse(text_of(file))}


def text_of(file: str) -> str:
    """The text of a file of this package."""
    return resources.files(__package__).joinpath(file).read_text(encoding="utf-8")


def _parse(text: str) -> Iterator[Statement]:
    name: str | None = None
    reason: list[str] = []
    body: list[str] = []
    for line in [*text.splitlines(), "-- end"]:
        heading = _HEADING.match(line)
        if heading:
            if name is not None:
                yield Statement(name, " ".join(reason), "\n".join(body).strip().rstrip(";"))
            name, reason, body = heading[1], [], []
        elif line.startswith("-- ") and not body:
            reason.append(line.removeprefix("-- "))
        elif name is not None and line.strip():
            body.append(line)


def with_tables(sql: str, tables: Tables) -> str:
    """The text with the chosen table names instead of the usual ones."""
    for field in ("tasks", "dlq", "attempts", "results", "waiting"):
        usual: str = getattr(_DEFAULTS, field)
        chosen: str = getattr(tables, field)
        if chosen == usual:
            continue
        # An index is named after its table, and has no schema of its own.
        sql = re.sub(rf"\b{usual}_(?=[a-z])", f"{chosen.rpartition('.')[2]}_", sql)
        sql = re.sub(rf"\b{usual}\b", chosen, sql)
    return sql
