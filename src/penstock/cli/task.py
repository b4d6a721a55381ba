"""penstock task: durable tasks on PostgreSQL, MySQL and MariaDB."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

import typer

from penstock.cli.arguments import duration, duration_option, find_object, json_object
from penstock.cli.output import fields
from penstock.cli.session import TaskSession
from penstock.cli.session import command as any_command
from penstock.cli.worker import leave, logging_to, run_shown
from penstock.settings import variable
from penstock.tasks import (
    Dedupe,
    NewTask,
    Status,
    TablesMissing,
    TaskId,
    TaskNotFound,
    TaskStore,
    TaskWorker,
)
from penstock.worker.failure_log import FailureLog, LogErrors

UNWELL = 1
_SHOWN_BYTES = 2000

app = typer.Typer(
    name="task",
    help="Durable tasks, on PostgreSQL, MySQL or MariaDB.",
    epilog='Example: penstock task enqueue mail \'{"to": "ada"}\' --dsn mysql://app@localhost/shop',
    no_args_is_help=True,
)

Ids = Annotated[list[str], typer.Argument(metavar="ID", help="The ids of the tasks.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The task's id.")]
Topic = Annotated[str | None, typer.Option("--topic", help="Only of this topic.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="At most this many.")]


def command(
    name: str | None = None, *, example: str
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return any_command(app, name, example=example, session=TaskSession)


@command(example="penstock task init --dsn mysql://app@localhost/shop")
def init(session: TaskSession) -> None:
    """Make the task tables and indexes that are missing."""
    session.run(lambda store: store.create_tables(), opened=False)
    session.output.done({"ready": True}, "the task tables are ready")


@command(example='penstock task enqueue mail \'{"to": "ada"}\' --tenant acme --priority 30')
def enqueue(
    session: TaskSession,
    *,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="What kind of work it is.")],
    payload: Annotated[
        str, typer.Argument(metavar="PAYLOAD", help="Any text; - reads standard input.")
    ] = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Whose task it is.")] = "default",
    priority: Annotated[
        int, typer.Option("--priority", "-p", help="Higher goes first: 0, 10, 20, 30, 40.")
    ] = 20,
    max_attempts: Annotated[
        int, typer.Option("--max-attempts", min=1, help="Then it is dead.")
    ] = 5,
    delay: Annotated[timedelta | None, duration_option("--delay", help="Not before.")] = None,
    expires_in: Annotated[
        timedelta | None, duration_option("--expires-in", help="Never delivered after.")
    ] = None,
    dedupe_key: Annotated[
        str | None, typer.Option("--dedupe-key", help="At most one task of the tenant has it.")
    ] = None,
    dedupe: Annotated[
        str, typer.Option("--dedupe", help="For how long: forever, while-open or a duration.")
    ] = "forever",
    meta: Annotated[
        str | None, typer.Option("--meta", metavar="JSON", help="Data about the task.")
    ] = None,
    task_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its id; made up if not given.")
    ] = None,
) -> None:
    """Store a task for a worker to do."""
    given: dict[str, Any] = {} if task_id is None else {"id": TaskId(task_id)}
    task = NewTask(
        topic,
        sys.stdin.buffer.read() if payload == "-" else payload.encode(),
        tenant_id=tenant,
        meta=None if meta is None else json_object(meta, "--meta"),
        priority=priority,
        max_attempts=max_attempts,
        delay=delay,
        expires_in=expires_in,
        dedupe_key=dedupe_key,
        dedupe=_dedupe(dedupe),
        **given,
    )
    stored = session.run(lambda store: store.insert(task))
    session.output.done({"id": stored, "topic": topic}, f"enqueued task {stored}")


def _dedupe(text: str) -> Dedupe | timedelta:
    match text:
        case "forever":
            return Dedupe.FOREVER
        case "while-open":
            return Dedupe.WHILE_OPEN
        case _:
            return _lifetime(text)


def _lifetime(text: str) -> timedelta:
    try:
        return duration(text)
    except typer.BadParameter:
        raise typer.BadParameter(
            f"{text!r} is none of forever, while-open or a duration such as 30s or 1d",
            param_hint="--dedupe",
        ) from None


@command("list", example="penstock task list --status leased --topic mail")
def list_(
    session: TaskSession,
    status: Annotated[Status | None, typer.Option("--status", help="Only these.")] = None,
    topic: Topic = None,
    tenant: Tenant = None,
    limit: Limit = 50,
) -> None:
    """Show tasks, the newest first."""
    found = session.run(
        lambda store: store.list_tasks(status=status, topic=topic, tenant_id=tenant, limit=limit)
    )
    session.output.table(
        [_shown(task) for task in found],
        "id",
        "topic",
        "tenant_id",
        "status",
        "priority",
        "attempts",
        "available_at",
        "last_error",
        empty="there are no such tasks",
    )


@command(example="penstock task show 01a1e1ffc6c1000094580e67b2d888f0")
def show(session: TaskSession, task_id: Id) -> None:
    """Show one task whole, with its attempts and its result."""

    async def look(store: TaskStore) -> dict[str, Any]:
        task = await store.get(TaskId(task_id))
        if task is None:
            raise TaskNotFound(f"there is no task {task_id}")
        facts = {**_shown(task), "result": None, "history": []}
        # Tables made by hand may lack those two.
        with suppress(TablesMissing):
            facts["result"] = _text(await store.result(task.id))
        with suppress(TablesMissing):
            facts["history"] = [fields(each) for each in await store.attempts(task.id)]
        return facts

    session.output.record(session.run(look))


@command(example="penstock task retry 01a1e1ffc6c1000094580e67b2d888f0")
def retry(session: TaskSession, task_ids: Ids) -> None:
    """Queue dead, expired or waiting tasks now, with their attempts at zero."""
    _each(session, task_ids, "retried", lambda store, task_id: store.retry(task_id))


@command(example="penstock task cancel 01a1e1ffc6c1000094580e67b2d888f0 --reason 'ordered twice'")
def cancel(
    session: TaskSession,
    task_ids: Ids,
    reason: Annotated[str, typer.Option("--reason", help="Kept with the task.")] = "cancelled",
) -> None:
    """End open tasks; a worker that has one loses its lease."""
    _each(session, task_ids, "cancelled", lambda store, task_id: store.cancel(task_id, reason))


def _each(session: TaskSession, task_ids: list[str], word: str, act: Any) -> None:
    async def work(store: TaskStore) -> list[tuple[str, bool]]:
        return [(task_id, await act(store, TaskId(task_id))) for task_id in task_ids]

    for task_id, done in session.run(work):
        said = f"{word} {task_id}" if done else f"task {task_id} can't be {word} as it stands"
        session.output.line({"id": task_id, word: done}, said)


@command(example="penstock task dlq --topic mail")
def dlq(
    session: TaskSession, topic: Topic = None, tenant: Tenant = None, limit: Limit = 50
) -> None:
    """Show the dead letters of tasks, the oldest first."""
    found = session.run(lambda store: store.list_dlq(topic=topic, tenant_id=tenant, limit=limit))
    session.output.table(
        [_shown(each) for each in found],
        "task_id",
        "topic",
        "tenant_id",
        "reason",
        "failed_at",
        empty="there are no dead letters",
    )


@command(example="penstock task replay --max 100 --delay 5m")
def replay(
    session: TaskSession,
    *,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="At most this many; all if not given.")
    ] = None,
    delay: Annotated[timedelta | None, duration_option("--delay", help="Not before.")] = None,
    keep_attempts: Annotated[
        bool, typer.Option("--keep-attempts", help="Leave them counted, and allow one more.")
    ] = False,
    topic: Topic = None,
    tenant: Tenant = None,
) -> None:
    """Move dead letters back among the tasks, the oldest first."""
    done = session.run(
        lambda store: store.replay_dlq(
            limit=most,
            delay=delay,
            reset_attempts=not keep_attempts,
            topic=topic,
            tenant_id=tenant,
        )
    )
    session.output.done(
        fields(done), f"put {done.replayed} back, {done.remaining} dead letters are left"
    )


@command(example="penstock task stats --tenant acme --json")
def stats(session: TaskSession, topic: Topic = None, tenant: Tenant = None) -> None:
    """Count tasks by where they stand."""
    found = session.run(lambda store: store.stats(topic=topic, tenant_id=tenant))
    session.output.record({**fields(found), "total": found.total})


@command(example="penstock task purge --older-than 7d")
def purge(
    session: TaskSession,
    older_than: Annotated[
        timedelta, duration_option("--older-than", help="Finished this long ago.")
    ],
    status: Annotated[
        list[Status] | None, typer.Option("--status", help="done, dead or expired.")
    ] = None,
) -> None:
    """Delete finished tasks; those with a dedupe key stay, so that it is remembered."""
    statuses = status or [Status.DONE]
    count = session.run(lambda store: store.purge(older_than, statuses=statuses))
    session.output.done({"purged": count}, f"deleted {count} tasks")


@command(example="penstock task doctor --dsn mysql://app@localhost/shop")
def doctor(session: TaskSession) -> None:
    """Look at server and tables, and say what should be improved; exit code 1 if anything."""
    found = session.run(lambda store: store.check(), opened=False)
    session.output.table(
        [fields(each) for each in found], "name", "ok", "detail", "advice", empty=""
    )
    if not all(each.ok for each in found):
        raise typer.Exit(UNWELL)


@command(example="penstock task worker shop.tasks:worker --dsn mysql://app@localhost/shop")
def worker(
    session: TaskSession,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:WORKER", help="Where the penstock.tasks.TaskWorker is, or its maker."
        ),
    ],
    grace: Annotated[
        timedelta | None,
        duration_option("--grace", help="How long handlers may finish after a stop."),
    ] = None,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces",
            help="Show the traceback of a failed handler, not only where stderr is a terminal.",
        ),
    ] = False,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C: then what runs may finish, the rest goes back.

    A second signal stops it at once; the exit code is then 128 and the signal's number.
    """
    # The module's own connect() finds it there.
    os.environ[variable("dsn")] = session.dsn
    found = _find_worker(target)
    if grace is not None:
        found.grace = grace
    if traces:
        found.log = FailureLog(LogErrors.TRACEBACK)
    with logging_to(session.output):
        asyncio.run(_run_worker(session, found))
    leave(found)


async def _run_worker(session: TaskSession, found: TaskWorker) -> None:
    async with found.opened():
        session.output.note(f"worker {found.name} serves {', '.join(found.topics)}")
        await run_shown(found, session.output)


def _find_worker(target: str) -> TaskWorker:
    found = find_object(target)
    if not isinstance(found, TaskWorker):
        found = found() if callable(found) else found
    if not isinstance(found, TaskWorker):
        raise typer.BadParameter(f"{target} is no penstock.tasks.TaskWorker")
    return found


def _shown(row: Any) -> dict[str, Any]:
    facts = fields(row)
    return {**facts, "payload": _text(facts["payload"])}


def _text(payload: bytes | None) -> str | None:
    """Text where it is text, else base64; the beginning of what is long."""
    if payload is None:
        return None
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        text = f"base64:{base64.b64encode(payload).decode()}"
    return text if len(text) <= _SHOWN_BYTES else f"{text[:_SHOWN_BYTES]}… ({len(payload)} bytes)"
