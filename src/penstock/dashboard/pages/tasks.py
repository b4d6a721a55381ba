"""Tasks of each database that was named: counts, lists, one task, and what an operator can do.

Tasks may lie in another database than the audit, so one transaction can't hold both: the entry is
tried first, and commits right after the action.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict
from starlette.responses import RedirectResponse

from penstock.client.calls import audit
from penstock.dashboard.page_context import dashboard_of, parameter, render, session
from penstock.dashboard.pages import actions
from penstock.dashboard.pages.actions import Notice
from penstock.errors import DatabaseUnavailable, PenstockError
from penstock.tasks import StoreOptions, open_store
from penstock.tasks.errors import TablesMissing, TaskError, TaskNotFound
from penstock.tasks.task import LONGEST_ID, Attempt, DeadTask, Stats, Status, Task, TaskId

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.dashboard_options import Options
    from penstock.tasks.store import TaskStore

_PATIENCE = timedelta(seconds=3)
_LISTED = 50
_MOST_BYTES = 64 * 1024
_MOST_IDS = 200
_NOTED_BYTES = 600  # an entry of the audit is short
_REASON = "cancelled by an operator"


@dataclass(frozen=True, slots=True)
class TaskDatabase:
    """One database with tasks."""

    number: int
    dsn: str
    name: str
    """Where it is, without user and password."""


def _all_databases(options: Options) -> list[TaskDatabase]:
    return [TaskDatabase(number, dsn, _name(dsn)) for number, dsn in enumerate(options.task_dsns)]


def _chosen(options: Options, word: str) -> TaskDatabase | None:
    """The database that a form or an address names by its number."""
    return next((each for each in _all_databases(options) if str(each.number) == word), None)


@asynccontextmanager
async def _opened(database: TaskDatabase) -> AsyncIterator[TaskStore]:
    """Its store, for a moment.  An error never repeats the DSN: it may hold a password."""
    try:
        store = open_store(database.dsn, StoreOptions(pool_size=1, retry_for=_PATIENCE))
    except ImportError as problem:
        raise DatabaseUnavailable(str(problem)) from None
    try:
        await store.open()
        yield store
    except TaskError:
        raise
    except PenstockError as problem:
        raise DatabaseUnavailable(
            f"the tasks of {database.name} can't be reached ({type(problem).__name__})\n"
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


@dataclass(frozen=True, slots=True)
class Search:
    """Which tasks are wanted; None: all."""

    status: Status | None
    topic: str | None
    tenant: str | None


@dataclass(frozen=True, slots=True)
class View:
    """The tasks of a database, or why they can't be shown."""

    database: TaskDatabase
    stats: Stats = field(default_factory=Stats)
    tasks: list[Task] = field(default_factory=list)
    dead: list[DeadTask] = field(default_factory=list)
    problem: str = ""


async def page(request: Request) -> Response:
    status = parameter(request, "status")
    search = Search(
        Status(status) if status in list(Status) else None,
        parameter(request, "topic") or None,
        parameter(request, "tenant") or None,
    )
    found = _all_databases(dashboard_of(request).options)
    return render(
        request,
        "tasks.html",
        views=await asyncio.gather(*(_view(database, search) for database in found)),
        search=search,
        statuses=list(Status),
        did=await deed_done(request),
    )


async def _view(database: TaskDatabase, search: Search) -> View:
    of = {"topic": search.topic, "tenant_id": search.tenant}
    try:
        async with _opened(database) as store:
            return View(
                database,
                await store.stats(**of),
                await store.list_tasks(status=search.status, limit=_LISTED, **of),
                await store.list_dlq(limit=_LISTED, **of),
            )
    except PenstockError as problem:
        return View(database, problem=str(problem))


async def one(request: Request) -> Response:
    """One task: what it holds, and what became of it."""
    database = _chosen(dashboard_of(request).options, parameter(request, "shelf"))
    task_id = TaskId(parameter(request, "id").strip())
    if database is None or not 0 < len(task_id) <= LONGEST_ID:
        return actions.error(request, 400, "There is no such database or task id.")
    async with _opened(database) as store:
        task = await store.get(task_id)
        if task is None:
            return actions.error(request, 404, f"There is no task {task_id} in {database.name}.")
        attempts: list[Attempt] = []
        result: bytes | None = None
        # Tables made by hand may lack those two.
        with suppress(TablesMissing):
            attempts = await store.attempts(task_id)
        with suppress(TablesMissing):
            result = await store.result(task_id)
    return render(
        request,
        "task.html",
        shelf=database,
        task=task,
        attempts=attempts,
        result=result,
        most=_MOST_BYTES,
        now=datetime.now(UTC),
        did=await deed_done(request),
    )


# What an operator can do: confirmed first, and recorded as actions on queues are.


@dataclass(frozen=True, slots=True)
class Action:
    """A kind of action, on tasks that were chosen or on all dead letters."""

    name: str
    button: str
    question: str
    consequence: str
    done: str
    to_one: Callable[[TaskStore, TaskId], Awaitable[bool]] | None = None
    """What happens to each that was chosen; None: it is done to all dead letters."""
    undo: str | None = None
    is_final: bool = False


ACTIONS = {
    each.name: each
    for each in (
        Action(
            "retry",
            "Retry",
            "Queue these tasks now?",
            "Dead, expired and waiting ones are tried at once, with their attempts at zero. Those "
            "that a worker has, or that are done, stay as they are.",
            "Queued again in",
            lambda store, task_id: store.retry(task_id),
        ),
        Action(
            "cancel",
            "Cancel tasks",
            "Cancel these tasks?",
            "They become dead without a dead letter, and a worker that has one loses its lease. "
            "Those that are done, dead or expired stay as they are.",
            "Cancelled in",
            lambda store, task_id: store.cancel(task_id, _REASON),
            undo="retry",
        ),
        Action(
            "replay",
            "Replay",
            "Put all dead letters back among the tasks?",
            "They are tried again with their attempts counted anew. What fails again comes back "
            "here.",
            "Put dead letters back in",
        ),
    )
}


async def confirm(request: Request) -> Response:
    """Ask before it is done."""
    action = ACTIONS.get(parameter(request, "action"))
    database = _chosen(dashboard_of(request).options, parameter(request, "shelf"))
    ids = _ids(request.query_params.getlist("id"))
    if action is None or database is None or ids is None:
        return actions.unknown(request)
    if not session(request).may_act:
        return actions.forbidden(request)
    if action.to_one is not None and not ids:
        return actions.error(request, 400, "No task is ticked.", "Tick some, then choose again.")
    return render(
        request,
        "confirm_tasks.html",
        action=action,
        shelf=database,
        ids=ids,
        back=_back(database, ids),
    )


async def act(request: Request) -> Response:
    """Do it and record it."""
    form: dict[str, list[str]] = request.state.form
    dashboard = dashboard_of(request)
    action = ACTIONS.get(form.get("action", [""])[0])
    database = _chosen(dashboard.options, form.get("shelf", [""])[0])
    ids = _ids(form.get("id", []))
    if action is None or database is None or ids is None or (action.to_one is not None and not ids):
        return actions.unknown(request)
    if not session(request).may_act:
        return actions.forbidden(request)
    if form.get("sure", [""])[0] != "yes":
        return actions.unconfirmed(request)

    def entry(done: int | None) -> Any:
        detail = {"ids": _noted(ids), "count": len(ids), "shelf": database.number, "done": done}
        return audit.record_action(
            actions.actor(request), f"task {action.name}", database.name, detail
        )

    number = await dashboard.database.act_elsewhere(lambda: _do(action, database, ids), entry)
    return RedirectResponse(f"{_back(database, ids)}did={number}", 303)


async def _do(action: Action, database: TaskDatabase, ids: list[TaskId]) -> int:
    """How many tasks were changed: others may have moved on since they were shown."""
    async with _opened(database) as store:
        if action.to_one is None:
            return (await store.replay_dlq()).replayed
        done = 0
        for task_id in ids:
            with suppress(TaskNotFound):
                done += await action.to_one(store, task_id)
        return done


async def deed_done(request: Request) -> Notice | None:
    """The notice about what was just done to tasks."""
    if not parameter(request, "did"):
        return None
    entry = await actions.just_done(request)
    action = ACTIONS.get(entry.action.removeprefix("task ")) if entry else None
    if entry is None or action is None or not entry.action.startswith("task "):
        return None
    detail = entry.detail or {}
    ids, chosen, done = detail.get("ids", []), detail.get("count", 0), detail.get("done", 0)
    told = Notice(entry, action.done, f"{done} of {chosen} chosen" if chosen else f"{done} of them")
    if action.undo is None or chosen != len(ids) or not done:
        return told
    link = urlencode({"action": action.undo, "shelf": detail.get("shelf"), "id": ids}, doseq=True)
    undo = ACTIONS[action.undo].button.lower()
    return replace(told, undo=undo, undo_link=f"/task/confirm?{link}")


def _ids(words: list[str]) -> list[TaskId] | None:
    """The ids of a form; None when something else is among them."""
    if len(words) > _MOST_IDS or any(not 0 < len(word) <= LONGEST_ID for word in words):
        return None
    return [TaskId(word) for word in words]


def _noted(ids: list[TaskId]) -> list[TaskId]:
    """As many as an entry of the audit has room for."""
    ends = accumulate(len(each.encode()) + len('"", ') for each in ids)
    return [each for each, end in zip(ids, ends, strict=True) if end <= _NOTED_BYTES]


def _back(database: TaskDatabase, ids: list[TaskId]) -> str:
    if len(ids) == 1:
        return f"/task?{urlencode({'shelf': database.number, 'id': ids[0]})}&"
    return "/tasks?"
