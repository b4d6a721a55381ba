"""What the engine says when it refuses, and the proof that it changed nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

# The clock moves by itself; sequences do not roll back, and nothing depends on their gaps.
_TABLES = """
    select c.oid::regclass::text from pg_class c
    where c.relnamespace = 'penstock_data'::regnamespace and c.relkind = 'r' order by 1
"""


@contextmanager
def refused(code: str, *words: str) -> Iterator[None]:
    """Expect an error with this SQLSTATE, a hint, and these words in its message."""
    with pytest.raises(psycopg.Error) as caught:
        yield
    said = caught.value.diag
    assert said.sqlstate == code, f"{said.sqlstate} {said.message_primary}"
    assert said.message_hint or not code.startswith("PS")
    for word in words:
        assert word in (said.message_primary or ""), said.message_primary


def contents(db: psycopg.Connection[Any]) -> dict[str, tuple[int, str | None]]:
    """Every base table with its row count and a digest of its rows."""
    return {
        table: db.execute(
            f"select count(*), md5(string_agg(t::text, '|' order by t::text)) from {table} t"
        ).fetchone()  # type: ignore[misc]
        for (table,) in db.execute(_TABLES).fetchall()
    }


@contextmanager
def nothing_changes(db: psycopg.Connection[Any]) -> Iterator[None]:
    """Expect every base table to be the same afterwards."""
    before = contents(db)
    yield
    assert contents(db) == before
