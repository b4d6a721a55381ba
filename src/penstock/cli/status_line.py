"""What a running worker shows: a live line on a terminal, log lines elsewhere."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.live import Live
from rich.logging import RichHandler
from rich.text import Text

from penstock import WorkerStatus
from penstock.cli.output import Output, clean
from penstock.observe import logs
from penstock.worker.base_worker import BaseWorker

_REFRESH_SECONDS = 0.25


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
        live.update(line(status, pace), refresh=True)
        await asyncio.sleep(_REFRESH_SECONDS)


def line(status: WorkerStatus, pace: float) -> Text:
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
