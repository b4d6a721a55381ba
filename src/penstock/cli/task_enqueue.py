"""penstock task enqueue."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Annotated, Any

import typer

from penstock.cli.arguments import duration_option
from penstock.cli.task_session import TaskSession
from penstock.cli.values import duration, json_object
from penstock.tasks import Dedupe, NewTask, TaskId


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
