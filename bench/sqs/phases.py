"""What is measured: sending, draining what was sent, and both at once, by some connections."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.sqs.wire import Client, Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.sqs.peers import Started

BODY = "x" * 100


@dataclass(frozen=True, slots=True)
class Sample:
    """One phase of one server."""

    server: str
    phase: str
    connections: int
    batch: int
    messages: int
    seconds: float
    server_cpu: float
    database_cpu: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def per_cpu_second(self) -> float:
        cpu = self.server_cpu + self.database_cpu
        return self.messages / cpu if cpu else 0.0

    def each(self, cpu: float) -> float:
        """Microseconds of it for each message."""
        return cpu / self.messages * 1e6 if self.messages else 0.0


class Queue:
    """One queue of the server under test, and what is done with it."""

    def __init__(self, client: Client, batch: int) -> None:
        self._client = client
        self._batch = batch
        self._url = ""

    async def create(self, connection: Connection) -> None:
        wanted = {"QueueName": f"bench{time.time_ns()}"}
        self._url = (await self._client.call(connection, "CreateQueue", wanted))["QueueUrl"]

    async def send(self, connection: Connection) -> int:
        if self._batch == 1:
            await self._call(connection, "SendMessage", MessageBody=BODY)
        else:
            entries = [{"Id": str(n), "MessageBody": BODY} for n in range(self._batch)]
            await self._call(connection, "SendMessageBatch", Entries=entries)
        return self._batch

    async def take(self, connection: Connection) -> int:
        """Receive and delete; 0 when there is nothing."""
        wanted = {"MaxNumberOfMessages": self._batch}
        got = (await self._call(connection, "ReceiveMessage", **wanted)).get("Messages") or []
        handles = [message["ReceiptHandle"] for message in got]
        if len(handles) == 1:
            await self._call(connection, "DeleteMessage", ReceiptHandle=handles[0])
        elif handles:
            entries = [{"Id": str(n), "ReceiptHandle": each} for n, each in enumerate(handles)]
            await self._call(connection, "DeleteMessageBatch", Entries=entries)
        return len(handles)

    async def both(self, connection: Connection) -> int:
        await self.send(connection)
        return await self.take(connection)

    async def _call(self, connection: Connection, action: str, **given: Any) -> Any:
        return await self._client.call(connection, action, {"QueueUrl": self._url, **given})


async def measure(server: Started, connections: int, batch: int, seconds: float) -> list[Sample]:
    """Send, a drain of what was sent, and mixed on an empty queue, for so many seconds each."""
    client = Client(server.url, server.protocol)
    lines = [await client.connect() for _ in range(connections)]
    try:
        queue = Queue(client, batch)
        await queue.create(lines[0])
        samples = []
        # A queue of its own: what a slow server could not drain would be a backlog here.
        fresh = Queue(client, batch)
        await fresh.create(lines[0])
        for phase, step in (("send", queue.send), ("drain", queue.take), ("mixed", fresh.both)):
            client.latencies.clear()
            cpu = server.cpu()
            messages, took = await _spend(lines, step, seconds, ends_empty=phase == "drain")
            spent = [now - before for now, before in zip(server.cpu(), cpu, strict=True)]
            latencies = sorted(client.latencies) or [0.0]
            samples.append(
                Sample(
                    server.name,
                    phase,
                    connections,
                    batch,
                    messages,
                    took,
                    *spent,
                    latencies[len(latencies) // 2],
                    latencies[len(latencies) * 99 // 100],
                )
            )
        return samples
    finally:
        for line in lines:
            line.close()


async def drain_with_backlog(server: Started, backlog: int, seconds: float) -> Sample:
    """How fast ten at a time are taken while so many more wait."""
    client = Client(server.url, server.protocol)
    lines = [await client.connect() for _ in range(8)]
    try:
        queue = Queue(client, 10)
        await queue.create(lines[0])
        left = backlog

        async def fill(line: Connection) -> None:
            nonlocal left
            while left > 0:
                left -= 10
                await queue.send(line)

        await asyncio.gather(*(fill(line) for line in lines))
        client.latencies.clear()
        cpu = server.cpu()
        messages, took = await _spend(lines, queue.take, seconds, ends_empty=True)
        spent = [now - before for now, before in zip(server.cpu(), cpu, strict=True)]
        latencies = sorted(client.latencies) or [0.0]
        return Sample(
            server.name,
            f"drain of {backlog}",
            8,
            10,
            messages,
            took,
            *spent,
            latencies[len(latencies) // 2],
            latencies[len(latencies) * 99 // 100],
        )
    finally:
        for line in lines:
            line.close()


async def _spend(
    lines: list[Connection],
    step: Callable[[Connection], Awaitable[int]],
    seconds: float,
    *,
    ends_empty: bool,
) -> tuple[int, float]:
    started = time.perf_counter()
    end, messages = started + seconds, 0

    async def run(line: Connection) -> None:
        nonlocal messages
        while time.perf_counter() < end:
            done = await step(line)
            messages += done
            if ends_empty and not done:
                break

    await asyncio.gather(*(run(line) for line in lines))
    return messages, time.perf_counter() - started
