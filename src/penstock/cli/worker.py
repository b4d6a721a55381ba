"""penstock worker: run a worker of your own until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli import status_line
from penstock.cli.arguments import duration_option
from penstock.cli.object_lookup import find_worker
from penstock.cli.session import Session, command
from penstock.settings import variable
from penstock.worker.base_worker import BaseWorker
from penstock.worker.failure_log import FailureLog, LogErrors

_SIGNALLED = 128
_WATCH_ADVICE = "--watch needs watchfiles: pip install 'penstock-mq[watch]'"

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:WORKER",
        help="Where the penstock.Worker is, or a function that makes it.",
        show_default=False,
    ),
]


def worker(
    session: Session,
    target: Target,
    grace: Annotated[
        timedelta | None,
        duration_option("--grace", help="How long handlers may finish after a stop."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Start again whenever a Python file here changes.")
    ] = False,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces",
            help="Show the traceback of a failed handler, not only where stderr is a terminal.",
        ),
    ] = False,
) -> None:
    """Run a worker: its handlers and schedules, until SIGTERM or Ctrl-C.

    The first signal stops it in order: nothing new is claimed, what runs may finish, the rest goes
    back to its queue. A second one stops it at once.

    Exit codes: 0 stopped as asked, 1 a queue could not be read for too long, 2 no such worker, 128
    and the signal's number after a second one.
    """
    if session.settings.dsn is not None:
        # The module's own connect() finds it there, as do the processes of its handlers.
        os.environ[variable("dsn")] = session.settings.dsn
    if watch:
        _watch(target, grace, json=session.output.json, traces=traces)
        return
    found = find_worker(target)
    if grace is not None:
        found.grace = grace
    if traces:
        found.log = FailureLog(LogErrors.TRACEBACK)
    with status_line.logging_to(session.output):
        asyncio.run(status_line.run_shown(found, session.output))
    leave(found)


def leave(found: BaseWorker) -> None:
    """End the process as a worker that has stopped should."""
    code = 0 if found.stopped_by is None else _SIGNALLED + found.stopped_by
    if _threads_left():
        # Python would wait for handlers that were given up, and a thread can't be stopped.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    if code:
        raise typer.Exit(code)


def _threads_left() -> bool:
    ours = "penstock-"
    return any(each.name.startswith(ours) and each.is_alive() for each in threading.enumerate())


def _watch(target: str, grace: timedelta | None, *, json: bool, traces: bool) -> None:
    try:
        from watchfiles import PythonFilter, run_process
    except ImportError:
        raise typer.BadParameter(_WATCH_ADVICE) from None
    words = [sys.executable, "-m", "penstock.cli", "worker", target]
    words += ["--json"] if json else []
    words += ["--traces"] if traces else []
    words += [] if grace is None else ["--grace", f"{grace.total_seconds():g}s"]
    run_process(
        Path.cwd(),
        target=shlex.join(words),
        target_type="command",
        watch_filter=PythonFilter(),
        # As long as the worker itself may take, and a little more before it is killed.
        sigint_timeout=round((grace or timedelta(seconds=30)).total_seconds()) + 10,
    )


def register(app: typer.Typer) -> None:
    command(app, example="penstock worker shop:worker --grace 1m")(worker)
