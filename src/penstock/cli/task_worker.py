"""penstock task worker."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import Annotated

import typer

from penstock.cli import status_line
from penstock.cli.arguments import duration_option
from penstock.cli.object_lookup import find_object
from penstock.cli.session import TaskSession
from penstock.cli.worker import leave
from penstock.settings import variable
from penstock.tasks import TaskWorker
from penstock.worker.failure_log import FailureLog, LogErrors


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
    found = _found(target)
    if grace is not None:
        found.grace = grace
    if traces:
        found.log = FailureLog(LogErrors.TRACEBACK)
    with status_line.logging_to(session.output):
        asyncio.run(_run_worker(session, found))
    leave(found)


async def _run_worker(session: TaskSession, found: TaskWorker) -> None:
    async with found.opened():
        session.output.note(f"worker {found.name} serves {', '.join(found.topics)}")
        await status_line.run_shown(found, session.output)


def _found(target: str) -> TaskWorker:
    found = find_object(target)
    if not isinstance(found, TaskWorker):
        found = found() if callable(found) else found
    if not isinstance(found, TaskWorker):
        raise typer.BadParameter(f"{target} is no penstock.tasks.TaskWorker")
    return found
