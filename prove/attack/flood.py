"""Hostile requests, rightly signed: every action in both protocols, by the ten thousand."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from penstock.sqs.protocol.sqs_model import ACTIONS
from prove.attack import mutations
from prove.attack.sqs_samples import FORMS, REQUESTS
from prove.attack.wire import Line, Reply, as_bytes, form_of, form_request, json_request

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.sqs.auth.access_keys import AccessKey

LINES = 16
QUEUES = ("q", "dead", "q.fifo")
_RENEW = 500
# Of what a real client would never send as a body, one in so many.
_SHORT = 100_000


def hostile(url: str, key: AccessKey, luck: random.Random) -> Iterator[tuple[str, bytes]]:
    """Action and request without end."""
    samples = {action: json.dumps(REQUESTS[action]).encode() for action in ACTIONS}
    bodies = {action: mutations.inputs([sample], luck) for action, sample in samples.items()}
    forms = mutations.inputs(FORMS, luck)
    actions = sorted(ACTIONS)
    while True:
        action = luck.choice(actions)
        body = next(bodies[action])[:_SHORT]
        match luck.randrange(4):
            case 0:
                yield "form", as_bytes(form_request(url, next(forms)[:_SHORT], key))
            case 1:
                yield action, as_bytes(form_request(url, _form(action, body), key))
            case _:
                yield action, as_bytes(json_request(url, action, body, key))


def _form(action: str, body: bytes) -> bytes:
    try:
        return form_of(action, json.loads(body))
    except (ValueError, AttributeError, RecursionError):
        return f"Action={action}&".encode() + body


class Flood:
    """Sends requests over several connections, and counts what comes back."""

    def __init__(self, url: str, key: AccessKey, luck: random.Random, folder: Path) -> None:
        self.url, self.key, self.luck = url, key, luck
        self.statuses: Counter[int] = Counter()
        self.actions: Counter[str] = Counter()
        self._examples = folder / "failures.txt"
        self._shown: set[tuple[str, int]] = set()

    async def send(self, count: int) -> None:
        source = islice(hostile(self.url, self.key, self.luck), count)
        await self.queues()
        lines = [Line(self.url) for _ in range(LINES)]
        await asyncio.gather(*(self._drain(line, source) for line in lines))
        for line in lines:
            line.close()

    async def queues(self) -> None:
        """What the requests are about; hostile ones delete it at times."""
        line = Line(self.url)
        for name in QUEUES:
            more = {"Attributes": {"FifoQueue": "true"}} if name.endswith(".fifo") else {}
            body = json.dumps({"QueueName": name, **more}).encode()
            await line.ask(as_bytes(json_request(self.url, "CreateQueue", body, self.key)))
        line.close()

    async def _drain(self, line: Line, source: Iterator[tuple[str, bytes]]) -> None:
        for action, data in source:
            self._note(action, data, await line.ask(data))
            if self.statuses.total() % _RENEW == 0:
                await self.queues()

    def _note(self, action: str, data: bytes, reply: Reply) -> None:
        self.statuses[reply.status] += 1
        self.actions[action] += 1
        if (reply.status >= 500 or reply.status <= 0) and (action, reply.status) not in self._shown:
            self._shown.add((action, reply.status))
            with self._examples.open("a", encoding="utf-8") as file:
                file.write(f"{action} {reply.status} {reply.body[:300]!r}\n{data!r}\n\n")

    @property
    def broken(self) -> dict[str, int]:
        failed = sum(n for status, n in self.statuses.items() if status >= 500)
        found = {"5xx": failed, "hangs": self.statuses[0], "hung up": self.statuses[-1]}
        return {name: count for name, count in found.items() if count}
