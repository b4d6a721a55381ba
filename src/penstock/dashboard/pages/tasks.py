"""Tasks of each database that was named: counts, the newest tasks, and the dead ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.dashboard.desk import asked, desk
from penstock.dashboard.desk import page as whole
from penstock.errors import PenstockError
from penstock.tasks import StoreOptions, open_store
from penstock.tasks.task import DeadTask, Stats, Status, Task

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_LISTED = 50
_PATIENCE = timedelta(seconds=3)


@dataclass(frozen=True, slots=True)
class Shelf:
    """One database's tasks, or why they can't be shown."""

    name: str
    stats: Stats = field(default_factory=Stats)
    tasks: list[Task] = field(default_factory=list)
    dead: list[DeadTask] = field(default_factory=list)
    problem: str = ""


async def page(request: Request) -> Response:
    chosen = asked(request, "status")
    status = Status(chosen) if chosen in list(Status) else None
    dsns = desk(request).options.task_dsns
    shelves = await asyncio.gather(*(_shelf(dsn, status) for dsn in dsns))
    return whole(
        request,
        "tasks.html",
        shelves=shelves,
        status=status,
        statuses=list(Status),
        now=datetime.now(UTC),
    )


async def _shelf(dsn: str, status: Status | None) -> Shelf:
    name = _name(dsn)
    try:
        store = open_store(dsn, StoreOptions(pool_size=1, retry_for=_PATIENCE))
    except (PenstockError, ImportError) as problem:
        return Shelf(name, problem=str(problem))
    try:
        await store.open()
        return Shelf(
            name,
            await store.stats(),
            await store.list_tasks(status=status, limit=_LISTED),
            await store.list_dlq(limit=_LISTED),
        )
    except PenstockError as problem:
        # The DSN itself is not repeated: it may hold a password.
        return Shelf(name, problem=type(problem).__name__)
    finally:
        await store.close()


def _name(dsn: str) -> str:
    """Where the tasks are, without user and password."""
    parts = urlsplit(dsn)
    if not parts.scheme:
        return "PostgreSQL"
    return f"{parts.scheme.partition('+')[0]}://{parts.hostname or 'local'}{parts.path}"
