"""pgqueuer through its own queries object, on one asyncpg connection."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg  # type: ignore[import-untyped]
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.queries import Queries

from bench.contestants import Claim
from bench.peers.library import keywords
from bench.peers.sessions import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.server import Server


class Session:
    """One event loop and one connection; a queue is an entrypoint, fan-out a job for each."""

    def __init__(self, dsn: str, queues: int) -> None:
        self._runner = asyncio.Runner()
        self._connection: Any = self._runner.run(_connect(dsn))
        self._queries = Queries.from_asyncpg_connection(self._connection)
        self._queues = [f"queue-{queue}" for queue in range(queues)]
        self._unlimited = EntrypointExecutionParameter(concurrency_limit=0)
        self._manager: Any = uuid.uuid4()

    def publish_one(self, payload: Payload) -> None:
        self.publish_batch([payload])

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        jobs = [(queue, payload) for payload in payloads for queue in self._queues]
        self._runner.run(
            self._queries.enqueue(
                [queue for queue, _ in jobs],
                [payload.text.encode() for _, payload in jobs],
                [0] * len(jobs),
            )
        )

    def settle(self) -> None:
        pass

    def preload(self, payloads: Sequence[Payload], batch: int) -> None:  # noqa: ARG002
        self.publish_batch(payloads)

    def claim(self, size: int, queue: int = 0) -> Claim:
        entrypoints: Any = {self._queues[queue]: self._unlimited}
        jobs = self._runner.run(
            self._queries.dequeue(
                batch_size=size,
                entrypoints=entrypoints,
                queue_manager_id=self._manager,
                global_concurrency_limit=None,
                heartbeat_timeout=timedelta(seconds=LEASE_SECONDS),
            )
        )
        return Claim([json.loads(job.payload or b"")["n"] for job in jobs], jobs)

    def ack(self, claim: Claim) -> None:
        jobs: Any = claim.handle
        self._runner.run(self._queries.log_jobs([(job, "successful", None) for job in jobs]))

    def housekeep(self) -> None:
        pass

    def pids(self) -> Mapping[str, int]:
        return {"all": self._connection.get_server_pid()}

    def close(self) -> None:
        self._runner.run(self._connection.close())
        self._runner.close()


async def _connect(dsn: str) -> Any:
    return await asyncpg.connect(**keywords(dsn))


async def _install(dsn: str) -> None:
    connection = await _connect(dsn)
    await Queries.from_asyncpg_connection(connection).install()
    await connection.close()


@dataclass(frozen=True, slots=True)
class PgQueuer:
    name: str = "pgqueuer"

    def unavailable(self, server: Server) -> str | None:  # noqa: ARG002
        return None

    def refuses(self, case: Case) -> str | None:  # noqa: ARG002
        return None

    def install(self, server: Server, database: str) -> None:
        asyncio.run(_install(server.dsn(database)))

    def open(self, dsn: str, case: Case) -> Session:
        return Session(dsn, case.queues)


def contestant() -> PgQueuer:
    return PgQueuer()
