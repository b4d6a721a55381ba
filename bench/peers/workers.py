"""Each contestant's own worker, as its documentation starts one, with a handler that does nothing.

`serve` runs until `stop` is set; its handler hands the number of every job to `Jobs.do`.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from bench.peers.library import keywords
from bench.peers.penstock_sql import queue_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Connections that a worker may hold: enough for every contestant to keep its jobs going.
CONNECTIONS = 10


@dataclass(frozen=True, slots=True)
class Jobs:
    """How many at a time, how long each takes, and who is told of those that are done."""

    concurrency: int
    seconds: float
    handled: Callable[[int], None]
    #: Told when several processes begin, which have loaded their library before.
    begun: Callable[[], None] = lambda: None

    async def do(self, number: int) -> None:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        self.handled(number)


class Serve(Protocol):
    async def __call__(self, dsn: str, jobs: Jobs, stop: asyncio.Event) -> None: ...


async def penstock(dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
    from penstock import Worker, connect  # noqa: PLC0415 - a peer is imported when it takes part

    worker = Worker(connect(dsn, pool_size=CONNECTIONS))

    @worker.handler(queue_name(0), concurrency=jobs.concurrency)
    async def job(message: Any) -> None:
        await jobs.do(message.payload["n"])

    running = asyncio.create_task(worker.run(signals=False))
    await stop.wait()
    await worker.stop()
    await running


async def procrastinate(dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
    from procrastinate import App, PsycopgConnector  # noqa: PLC0415

    app = App(connector=PsycopgConnector(conninfo=dsn, min_size=1, max_size=CONNECTIONS))

    @app.task(name="bench")
    async def job(**document: Any) -> None:
        await jobs.do(document["n"])

    async with app.open_async():
        running = asyncio.create_task(
            app.run_worker_async(
                queues=[queue_name(0)],
                concurrency=jobs.concurrency,
                delete_jobs="always",
                install_signal_handlers=False,
            )
        )
        await stop.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def pgqueuer(dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
    import asyncpg  # type: ignore[import-untyped]  # noqa: PLC0415
    from pgqueuer.db import AsyncpgPoolDriver  # noqa: PLC0415
    from pgqueuer.qm import QueueManager  # noqa: PLC0415
    from pgqueuer.queries import Queries  # noqa: PLC0415

    async with asyncpg.create_pool(**keywords(dsn), min_size=1, max_size=CONNECTIONS) as pool:
        manager = QueueManager(Queries(AsyncpgPoolDriver(pool)))

        @manager.entrypoint(queue_name(0))
        async def job(found: Any) -> None:
            await jobs.do(json.loads(found.payload)["n"])

        running = asyncio.create_task(
            # The fastest of the settings that were tried, see METHOD.md: batches as large as ours,
            # and no limit to its tasks, which a concurrency of 50 would set.
            manager.run(
                batch_size=2 * jobs.concurrency,
                dequeue_timeout=timedelta(seconds=1),
            )
        )
        await stop.wait()
        manager.shutdown.set()
        await running


def _from(module: str, name: str) -> Serve:
    """A peer's `serve`, imported when it takes part."""

    async def serve(dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
        found: Serve = getattr(import_module(f"bench.peers.{module}"), name)
        await found(dsn, jobs, stop)

    return serve


WORKERS: Mapping[str, Serve] = {
    "penstock": penstock,
    "procrastinate": procrastinate,
    "pgqueuer": pgqueuer,
    "chancy": _from("chancy_peer", "serve"),
    "awa": _from("awa_peer", "serve"),
    "pg-boss": _from("node_peers", "serve_pg_boss"),
    "graphile-worker": _from("node_peers", "serve_graphile_worker"),
}
