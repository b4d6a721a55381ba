"""Other sessions that stay open for as long as a scenario runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def held_snapshot(dsn: str) -> Iterator[None]:
    """A report that never ends: a REPEATABLE READ transaction with its snapshot taken."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from pg_class")
        yield
        connection.rollback()


@contextmanager
def open_writer(dsn: str) -> Iterator[None]:
    """A transaction that has written something, and so has a transaction id, and stays open."""
    with psycopg.connect(dsn) as connection:
        connection.execute("create table public.open_writer (at timestamptz)")
        connection.commit()
        connection.execute("insert into public.open_writer values (clock_timestamp())")
        yield
        connection.rollback()
