"""penstock worker: run a worker of your own until it is told to stop.

While it runs, it shows a live line on a terminal, and log lines elsewhere; so does `task worker`.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.logging import RichHandler
from rich.text import Text

from penstock import Worker, WorkerStatus
from penstock.cli.arguments import duration_option, find_object, unusable_target
from penstock.cli.output import Output, clean
from penstock.cli.session import Session, command
from penstock.observe import logs
from penstock.settings import variable
from penstock.worker.base_worker import BaseWorker
from penstock.worker.failure_log import FailureLog, LogErrors

_SIGNALLED = 128
_REFRESH_SECONDS = 0.25
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
    found = _find_worker(target)
    if grace is not None:
        found.grace = grace
    if traces:
        found.log = FailureLog(LogErrors.TRACEBACK)
    with logging_to(session.output):
        asyncio.run(run_shown(found, session.output))
    leave(found)


def _find_worker(target: str) -> Worker:
    """The worker that `module:name` stands for, or a function without arguments that makes it."""
    found = find_object(target)
    if not isinstance(found, Worker) and callable(found) and not inspect.isclass(found):
        found = found()
    if not isinstance(found, Worker):
        raise unusable_target(f"{target} is a {type(found).__name__}, not a penstock.Worker")
    return found


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


@contextmanager
def logging_to(output: Output) -> Iterator[None]:
    """Events and the application's own log: JSON lines, plain lines, or above the live line."""
    handler: logging.Handler
    if output.json:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logs.JsonFormatter())
    elif output.aside.is_terminal:
        handler = RichHandler(console=output.aside, show_path=False)
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        with logs.start():
            yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


async def run_shown(worker: BaseWorker, output: Output) -> None:
    """Run a worker; show a status line if stderr is a terminal and the output is not JSON."""
    if output.json or not output.aside.is_terminal:
        await worker.run()
        return
    with Live(console=output.aside, auto_refresh=False, transient=True) as live:
        refreshing = asyncio.create_task(_refresh(worker, live))
        try:
            await worker.run()
        finally:
            refreshing.cancel()


async def _refresh(worker: BaseWorker, live: Live) -> None:
    seen, at, pace = 0, time.monotonic(), 0.0
    while True:
        status = worker.status()
        now = time.monotonic()
        if now > at:
            pace += 0.5 * ((status.acked - seen) / (now - at) - pace)
        seen, at = status.acked, now
        live.update(_line(status, pace), refresh=True)
        await asyncio.sleep(_REFRESH_SECONDS)


def _line(status: WorkerStatus, pace: float) -> Text:
    """The live line: the worker, then each queue that it serves."""
    parts = [Text.assemble((clean(status.name), "bold"), f" {status.state}  {pace:,.0f}/s")]
    for each in status.handlers:
        text = f"{clean(each.queue)}: {each.running} running, {each.acked:,} done"
        for count, word in ((each.failed, "failed"), (each.dead, "dead"), (each.lost, "lost")):
            text += f", {count:,} {word}" if count else ""
        parts.append(Text(text))
        if each.trouble is not None:
            parts.append(Text(clean(each.trouble), style="red"))
    return Text("  ·  ").join(parts)


def register(app: typer.Typer) -> None:
    command(app, example="penstock worker shop:worker --grace 1m")(worker)
