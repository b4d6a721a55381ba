"""Statements by name, read from the `statements.sql` of a database, with the chosen table names.

A statement stands below a line `-- name`; further comment lines belong to it and give its reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from penstock.tasks.options import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator

Row: TypeAlias = tuple[Any, ...]
Parameters: TypeAlias = dict[str, Any]

_HEADING = re.compile(r"^-- ([a-z_]+)$")
_DEFAULTS = Tables()


class Session(Protocol):
    """A connection while one piece of work has it."""

    async def rows(self, sql: str, parameters: Parameters | None = None) -> list[Row]:
        """Run a query."""
        ...

    async def run(self, sql: str, parameters: Parameters | None = None) -> int:
        """Run a change; the number of rows that it found."""
        ...


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement and why it is as it is."""

    name: str
    reason: str
    sql: str


def load(package: str, file: str = "statements.sql") -> dict[str, Statement]:
    """The statements of a package, in the order of the file."""
    text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
    return {each.name: each for each in _parse(text)}


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
