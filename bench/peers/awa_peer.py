"""awa: a queue in Rust with Python handlers, on an append-only store of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import awa

from bench.peers.library import Library, PublishingSession, url
from bench.peers.penstock_sql import queue_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.model import Case
    from bench.payloads import Payload
    from bench.peers.workers import Jobs
    from bench.server import Server


@dataclass
class Order:
    """A payload as awa wants it: its class names the kind of job."""

    n: int
    order: str
    customer: str
    amount: int
    note: str


def _order(payload: Payload) -> Order:
    document: dict[str, Any] = payload.document
    return Order(**document)


class Session(PublishingSession):
    def __init__(self, dsn: str) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(_client(dsn, 1))

    def publish_one(self, payload: Payload) -> None:
        self._runner.run(self._insert(payload))

    def publish_batch(self, payloads: Sequence[Payload]) -> None:
        self._runner.run(self._copy([_order(payload) for payload in payloads]))

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _insert(self, payload: Payload) -> None:
        await self._client.insert(_order(payload), queue=queue_name(0))

    async def _copy(self, orders: list[Order]) -> None:
        await self._client.enqueue_many_copy(orders, queue=queue_name(0))

    async def _close(self) -> None:
        await self._client.close()


class AwaPeer(Library):
    name = "awa"

    def install(self, server: Server, database: str) -> None:
        asyncio.run(_install(server.dsn(database)))

    def open(self, dsn: str, case: Case) -> Session:  # noqa: ARG002
        return Session(dsn)


async def _client(dsn: str, connections: int) -> Any:
    return awa.AsyncClient(url(dsn), max_connections=connections)


async def _install(dsn: str) -> None:
    client = await _client(dsn, 2)
    await client.migrate()
    # Its newer, append-only store; without this it starts on the older one.
    await client.install_queue_storage()
    await client.close()


async def serve(dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
    client = await _client(dsn, 10)

    @client.task(Order, queue=queue_name(0))
    async def work(job: Any) -> None:
        await jobs.do(job.args.n)

    await client.start([(queue_name(0), jobs.concurrency)])
    await stop.wait()
    await client.shutdown()
    await client.close()


def contestant() -> AwaPeer:
    return AwaPeer()
