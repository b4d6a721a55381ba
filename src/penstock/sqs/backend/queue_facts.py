"""What the server must know of a queue to answer a request: its policy and its wait."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.sqs.auth import queue_policy
from penstock.sqs.backend.call_batcher import Invocation
from penstock.sqs.protocol.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.sqs.backend.sqs_service import Service
    from penstock.sqs.protocol.queue_names import QueueId

# A change made through another process is known after this many seconds; through this one, at once.
LIFETIME = 2.0
_MOST = 10_000
_WANTED = ("Policy", "ReceiveMessageWaitTimeSeconds")


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The statements of a queue's policy, and the wait of its receives."""

    statements: Sequence[Mapping[str, Any]]
    wait_seconds: int


class FactCache:
    """Facts of queues, each read at most once in `LIFETIME`, however many requests need it."""

    def __init__(self, service: Service, now: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._now = now
        self._known: dict[QueueId, tuple[float, QueueFacts]] = {}
        self._asked: dict[QueueId, asyncio.Future[QueueFacts]] = {}

    def known(self, queue: QueueId) -> QueueFacts | None:
        """What is known and fresh, without asking."""
        found = self._known.get(queue)
        return None if found is None or found[0] <= self._now() else found[1]

    async def get(self, queue: QueueId) -> QueueFacts:
        """Raises the database's fault when there is no such queue."""
        if facts := self.known(queue):
            return facts
        if queue not in self._asked:
            self._asked[queue] = asyncio.ensure_future(self._ask(queue))
        return await asyncio.shield(self._asked[queue])

    async def find(self, queue: QueueId) -> QueueFacts | None:
        """None when there is no such queue."""
        try:
            return await self.get(queue)
        except Fault:
            return None

    def forget(self, queue: QueueId) -> None:
        """The queue was changed."""
        self._known.pop(queue, None)

    async def _ask(self, queue: QueueId) -> QueueFacts:
        try:
            facts = await self._looked_up(queue)
        finally:
            del self._asked[queue]
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[queue] = (self._now() + LIFETIME, facts)
        return facts

    async def _looked_up(self, queue: QueueId) -> QueueFacts:
        request = {
            "QueueUrl": queue.path,
            "AttributeNames": _WANTED,
        }
        context = {"account": queue.account, "region": queue.region}
        invocation = Invocation(msgspec.json.encode(request), msgspec.json.encode(context))
        answer = msgspec.json.decode(
            await self._service.call("GetQueueAttributes", queue, invocation)
        )
        attributes = answer.get("Attributes", {})
        return QueueFacts(
            queue_policy.parse(attributes.get("Policy", "")),
            int(attributes.get("ReceiveMessageWaitTimeSeconds", "0")),
        )
