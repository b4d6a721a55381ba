"""Tasks without `await`: its `connect()` gives what `penstock.tasks.connect()` gives, blocking.

with penstock.tasks.sync.connect("mysql://app@localhost/shop") as queue:
    queue.enqueue("mail", {"to": "ada"})
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.tasks._sync.queue import TaskQueue, connect
from penstock.tasks._sync.store import TaskStore, open_store

if TYPE_CHECKING:
    from penstock.tasks.worker import TaskWorker

__all__ = ["TaskQueue", "TaskStore", "connect", "open_store", "run"]


def run(worker: TaskWorker) -> None:
    """Open the worker's store and run it until SIGTERM or Ctrl-C, in a program without a loop."""

    async def main() -> None:
        async with worker.opened():
            await worker.run()

    asyncio.run(main())
