"""procrastinate through its own job manager, on one psycopg connection."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from procrastinate import App, PsycopgConnector
from procrastinate.jobs import Job, Status

from bench.contestants import Claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server


def _app(dsn: str) -> App:
    return App(connector=PsycopgConnector(conninfo=dsn, min_size=1, max_size=1))


class Session:
    """One event loop and a pool of one connection; fan-out is a job for each queue."""

    def __init__(self, dsn: str, queues: int) -> None:
        self._runner = asyncio.Runner()
        self._queues = [f"queue-{queue}" for queue in range(queues)]
        self._app = _app(dsn)
        self._runner.run(_open(self._app))
        self._manager = self._app.job_manager
        self._worker: int = self._runner.run(self._manager.register_worker())
        self._pid: int = self._runner.run(self._backend())

    def publish_one(self, payload: Payload) -> None:
        self.publish_batch([payload])

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        jobs = [self._job(queue, payload) for payload in payloads for queue in self._queues]
        self._runner.run(self._manager.batch_defer_jobs_async(jobs))

    def settle(self) -> None:
        pass

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:  # noqa: ARG002
        self.publish_batch(payloads)

    def claim(self, size: int, queue: int = 0) -> Claim:  # noqa: ARG002
        job = self._runner.run(self._manager.fetch_job([self._queues[queue]], self._worker))
        if job is None:
            return Claim([], None)
        number: Any = job.task_kwargs["n"]
        return Claim([number], job)

    def ack(self, claim: Claim) -> None:
        job: Any = claim.handle
        self._runner.run(self._manager.finish_job(job, Status.SUCCEEDED, delete_job=True))

    def housekeep(self) -> None:
        pass

    def pids(self) -> Mapping[str, int]:
        return {"all": self._pid}

    def close(self) -> None:
        self._runner.run(self._app.close_async())
        self._runner.close()

    async def _backend(self) -> int:
        row = await self._app.connector.execute_query_one_async("select pg_backend_pid() as pid")
        return int(row["pid"])

    def _job(self, queue: str, payload: Payload) -> Job:
        arguments: Any = payload.document
        return Job(
            queue=queue, lock=None, queueing_lock=None, task_name="bench", task_kwargs=arguments
        )


async def _open(app: App) -> None:
    await app.open_async()


async def _install(dsn: str) -> None:
    async with _app(dsn).open_async() as app:
        await app.schema_manager.apply_schema_async()


@dataclass(frozen=True, slots=True)
class Procrastinate:
    name: str = "procrastinate"

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        return None

    def refuses(self, case: Case) -> str | None:
        able = case.batch == 1 or case.paced or not case.claims
        return None if able else "takes one job at a time"

    def install(self, server: Server, database: str) -> None:
        asyncio.run(_install(server.dsn(database)))

    def open(self, dsn: str, case: Case) -> Session:
        return Session(dsn, case.queues)


def contestant() -> Procrastinate:
    return Procrastinate()
