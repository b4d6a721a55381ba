"""chancy: jobs are functions that its worker imports by their path."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from chancy import Chancy, Job, Queue, Worker

from bench.peers.library import Library, PublishingSession
from bench.peers.penstock_sql import queue_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.peers.workers import Jobs
    from bench.server import Server

#: Where the running worker's jobs are told: it finds the function by its name, not by a closure.
_running: list[Jobs] = []
_FUNCTION = f"{__name__}.work"
#: Its own logger writes a line a job.
_LOG = logging.getLogger("bench.chancy")
_LOG.setLevel(logging.CRITICAL)


async def work(n: int, **_: object) -> None:
    await _running[-1].do(n)


def _job(payload: Payload) -> Job:
    return Job(func=_FUNCTION, kwargs=payload.document, queue=queue_name(0))


class Session(PublishingSession):
    def __init__(self, dsn: str) -> None:
        self._chancy = Chancy(dsn, max_connection_pool_size=1, log=_LOG)
        self._chancy.__enter__()

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        for _ in self._chancy.sync_push_many([_job(payload) for payload in payloads]):
            pass

    def close(self) -> None:
        self._chancy.__exit__(None, None, None)


class ChancyPeer(Library):
    name = "chancy"

    def install(self, server: Server, database: str) -> None:
        asyncio.run(_install(server.dsn(database)))

    def open(self, dsn: str, case: Case) -> Session:  # noqa: ARG002
        return Session(dsn)


async def _install(dsn: str) -> None:
    async with Chancy(dsn, log=_LOG) as chancy:
        await chancy.migrate()


async def serve(dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
    queue = Queue(
        name=queue_name(0),
        concurrency=jobs.concurrency,
        executor=Chancy.Executor.Async,
        polling_interval=1,
        eager_polling=True,
    )
    _running.append(jobs)
    async with Chancy(dsn, max_connection_pool_size=10, log=_LOG) as chancy:
        await chancy.declare(queue, upsert=True)
        async with Worker(chancy, register_signal_handlers=False):
            await stop.wait()
    _running.remove(jobs)


def contestant() -> ChancyPeer:
    return ChancyPeer()
