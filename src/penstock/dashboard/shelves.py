"""The databases with tasks that the dashboard was told of.  A shelf is one of them, by number."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict

from penstock.errors import DatabaseUnavailable, PenstockError
from penstock.tasks import StoreOptions, open_store
from penstock.tasks.errors import TaskError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.dashboard.options import Options
    from penstock.tasks.store import TaskStore

_PATIENCE = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class Shelf:
    """One database with tasks."""

    number: int
    dsn: str
    name: str
    """Where it is, without user and password."""


def all_of(options: Options) -> list[Shelf]:
    return [Shelf(number, dsn, _name(dsn)) for number, dsn in enumerate(options.task_dsns)]


def chosen(options: Options, word: str) -> Shelf | None:
    """The shelf that a form or an address names."""
    return next((each for each in all_of(options) if str(each.number) == word), None)


@asynccontextmanager
async def opened(shelf: Shelf) -> AsyncIterator[TaskStore]:
    """Its store, for a moment.  An error never repeats the DSN: it may hold a password."""
    try:
        store = open_store(shelf.dsn, StoreOptions(pool_size=1, retry_for=_PATIENCE))
    except ImportError as problem:
        raise DatabaseUnavailable(str(problem)) from None
    try:
        await store.open()
        yield store
    except TaskError:
        raise
    except PenstockError as problem:
        raise DatabaseUnavailable(
            f"the tasks of {shelf.name} can't be reached ({type(problem).__name__})\n"
            "Is the server running, and may the login of --tasks-dsn use the task tables?"
        ) from None
    finally:
        await store.close()


def _name(dsn: str) -> str:
    parts = urlsplit(dsn)
    if parts.scheme:
        return f"{parts.scheme.partition('+')[0]}://{parts.hostname or 'local'}{parts.path}"
    # libpq's other form; a host that is a folder holds the server's socket.
    try:
        named = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        return "PostgreSQL"
    host = str(named.get("host") or "/")
    return f"postgresql://{'local' if host.startswith('/') else host}/{named.get('dbname', '')}"
