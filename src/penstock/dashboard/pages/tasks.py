"""Tasks of each database that was named: counts, the newest tasks, the dead ones; and one task."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.dashboard import deeds, shelves
from penstock.dashboard.desk import asked, desk
from penstock.dashboard.desk import page as whole
from penstock.dashboard.pages.task_actions import deed_done
from penstock.errors import PenstockError
from penstock.tasks.errors import TablesMissing
from penstock.tasks.task import LONGEST_ID, Attempt, DeadTask, Stats, Status, Task, TaskId

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.shelves import Shelf

_LISTED = 50
_MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Search:
    """Which tasks are wanted; None: all."""

    status: Status | None
    topic: str | None
    tenant: str | None


@dataclass(frozen=True, slots=True)
class View:
    """What lies on a shelf, or why it can't be shown."""

    shelf: Shelf
    stats: Stats = field(default_factory=Stats)
    tasks: list[Task] = field(default_factory=list)
    dead: list[DeadTask] = field(default_factory=list)
    problem: str = ""


async def page(request: Request) -> Response:
    status = asked(request, "status")
    search = Search(
        Status(status) if status in list(Status) else None,
        asked(request, "topic") or None,
        asked(request, "tenant") or None,
    )
    found = shelves.all_of(desk(request).options)
    return whole(
        request,
        "tasks.html",
        views=await asyncio.gather(*(_view(shelf, search) for shelf in found)),
        search=search,
        statuses=list(Status),
        did=await deed_done(request),
    )


async def _view(shelf: Shelf, search: Search) -> View:
    of = {"topic": search.topic, "tenant_id": search.tenant}
    try:
        async with shelves.opened(shelf) as store:
            return View(
                shelf,
                await store.stats(**of),
                await store.list_tasks(status=search.status, limit=_LISTED, **of),
                await store.list_dlq(limit=_LISTED, **of),
            )
    except PenstockError as problem:
        return View(shelf, problem=str(problem))


async def one(request: Request) -> Response:
    """One task: what it holds, and what became of it."""
    shelf = shelves.chosen(desk(request).options, asked(request, "shelf"))
    task_id = TaskId(asked(request, "id").strip())
    if shelf is None or not 0 < len(task_id) <= LONGEST_ID:
        return deeds.error(request, 400, "There is no such database or task id.")
    async with shelves.opened(shelf) as store:
        task = await store.get(task_id)
        if task is None:
            return deeds.error(request, 404, f"There is no task {task_id} in {shelf.name}.")
        attempts: list[Attempt] = []
        result: bytes | None = None
        # Tables made by hand may lack those two.
        with suppress(TablesMissing):
            attempts = await store.attempts(task_id)
        with suppress(TablesMissing):
            result = await store.result(task_id)
    return whole(
        request,
        "task.html",
        shelf=shelf,
        task=task,
        attempts=attempts,
        result=result,
        most=_MOST_BYTES,
        now=datetime.now(UTC),
        did=await deed_done(request),
    )
