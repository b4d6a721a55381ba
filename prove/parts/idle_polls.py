"""Ten thousand clients that wait, and a hundred that work, on a handful of connections."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from prove.attack import served
from prove.attack.bombs import Memory
from prove.attack.pollers import Poller, connections, open_polls
from prove.attack.wire import Line, as_bytes, json_request
from prove.model import Outcome, Part
from tests.sqs.running import ADMIN

if TYPE_CHECKING:
    from prove.attack.served import Served
    from prove.model import Take

QUEUES = 20
ACTIVE = 100
MOST_CONNECTIONS = 20
MOST_MIB = 256
_AT_ONCE = 200
_WORK_SECONDS = 20
_PATIENCE_SECONDS = 180


def play(take: Take) -> Outcome:
    sabotage = "connection_a_poll" if take.sabotaged else "-"
    polls = 40 if take.sabotaged else take.size(full=10_000, quick=200)
    with served.database() as dsn, served.sqs(dsn, take.folder, (ADMIN,), sabotage) as server:
        return asyncio.run(_Play(take, server, dsn, polls).played())


class _Play:
    def __init__(self, take: Take, server: Served, dsn: str, polls: int) -> None:
        self.take, self.server, self.dsn = take, server, dsn
        self.polls = polls
        self.most_connections = 0
        self.worked = 0
        self.refused = 0

    async def played(self) -> Outcome:
        memory = Memory(self.server.process.pid)
        line = Line(self.server.url)
        for number in range(QUEUES):
            await line.ask(self._request("CreateQueue", {"QueueName": f"q{number}"}))
        await line.ask(self._request("CreateQueue", {"QueueName": "busy"}))
        watch = asyncio.create_task(memory.watch())
        answers = await self._wait()
        self.take.say(f"{await open_polls(self.server.url)} polls wait")
        await self._work()
        woken = await self._wake(line, answers)
        watch.cancel()
        for task in answers:
            task.cancel()
        await asyncio.gather(*answers, return_exceptions=True)
        broken = {
            "too many connections": int(self.most_connections > MOST_CONNECTIONS),
            "too much memory": int(memory.peak > MOST_MIB),
            "not woken": QUEUES - woken,
            "work refused": self.refused,
        }
        return Outcome(
            {
                "idle polls": self.polls,
                "active clients": ACTIVE,
                "requests of active clients": self.worked,
                "database connections at most": self.most_connections,
                "memory at most, MiB": round(memory.peak),
                "queues woken": woken,
            },
            {name: count for name, count in broken.items() if count},
        )

    async def _wait(self) -> list[asyncio.Task[int]]:
        """Open the polls; all of them wait when it returns."""
        gate, url = asyncio.Semaphore(_AT_ONCE), self.server.url
        pollers = [Poller(url, self._poll(n % QUEUES), gate) for n in range(self.polls)]
        answers = [asyncio.create_task(each.messages()) for each in pollers]
        # On a slow machine the first ask again while the last begin.
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (waiting := await open_polls(self.server.url)) < self.polls * 99 // 100:
            await self._look()
            too_many = self.most_connections > MOST_CONNECTIONS
            if time.monotonic() > deadline or (self.take.sabotaged and too_many):
                self.take.say(f"only {waiting} polls wait at once")
                self.polls = waiting
                break
        return answers

    def _poll(self, queue: int) -> bytes:
        return self._request("ReceiveMessage", {"QueueUrl": f"q{queue}", "WaitTimeSeconds": 20})

    async def _work(self) -> None:
        """A hundred clients send, receive and delete while the others wait."""
        workers = [asyncio.create_task(self._worker()) for _ in range(ACTIVE)]
        for _ in range(_WORK_SECONDS if not self.take.quick else 2):
            await self._look()
            await asyncio.sleep(1)
        for worker in workers:
            worker.cancel()
        for worker in workers:
            with suppress(asyncio.CancelledError):
                await worker

    async def _worker(self) -> None:
        line = Line(self.server.url)
        while True:
            await self._asked(line, "SendMessage", {"QueueUrl": "busy", "MessageBody": "x"})
            found = await self._asked(line, "ReceiveMessage", {"QueueUrl": "busy"})
            for message in json.loads(found or b"{}").get("Messages", []):
                handle = {"QueueUrl": "busy", "ReceiptHandle": message["ReceiptHandle"]}
                await self._asked(line, "DeleteMessage", handle)

    async def _asked(self, line: Line, action: str, request: dict[str, object]) -> bytes:
        reply = await line.ask(self._request(action, request))
        self.worked += 1
        # 503 asks to try again, as every SDK does; on a busy machine it may happen.
        if reply.status not in (200, 503):
            self.refused += 1
        return reply.body if reply.status == 200 else b""

    async def _wake(self, line: Line, answers: list[asyncio.Task[int]]) -> int:
        """They are awake: the next message of each queue finds somebody."""
        for number in range(QUEUES):
            await line.ask(
                self._request("SendMessage", {"QueueUrl": f"q{number}", "MessageBody": "x"})
            )
        for _ in range(600):
            woken = sum(each.done() for each in answers)
            if woken >= QUEUES:
                break
            await asyncio.sleep(0.1)
        await self._look()
        return min(woken, QUEUES)

    async def _look(self) -> None:
        self.most_connections = max(self.most_connections, await connections(self.dsn))

    def _request(self, action: str, request: dict[str, object]) -> bytes:
        body = json.dumps(request).encode()
        return as_bytes(json_request(self.server.url, action, body, ADMIN))


PART = Part(
    name="idle-polls",
    promise="Clients that wait cost next to nothing: neither connections nor memory.",
    how="10,000 long polls wait over sockets of their own while 100 clients send, receive and "
    "delete (they begin when 99 of 100 polls are seen to wait); then each queue gets a message, "
    "which must find a poll.",
    sabotage="each long poll holds a database connection",
    breaks=frozenset({"too many connections"}),
    play=play,
    enough={"idle polls": 10_000, "active clients": 100},
)
