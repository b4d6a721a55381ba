"""A queue for one purpose: it ends with its block, or by itself soon after its owner died."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from penstock.client import calls
from penstock.client.values import new_token
from penstock.errors import DatabaseUnavailable, QueueExpired, UnknownQueue
from penstock.postgres._async.concurrency import monotonic

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.client._async.client import Client
    from penstock.models import ClaimedMessage, Json
    from penstock.postgres._async.listener import Watch

_KEEP_ALIVE = timedelta(minutes=1)
_RENEW_AFTER = 20.0
_LEAVE_WITHIN = timedelta(seconds=1)
_CLAIM_FOR = timedelta(seconds=30)
# Behind a pooler no notification arrives, so the queue is looked at this often.
_LONGEST_REST = 1.0
_BATCH = 100


class TemporaryQueue:
    """An exclusive queue and what arrives in it."""

    def __init__(
        self, client: Client, name: str, *, topic: str, wanted: dict[str, Json] | None = None
    ) -> None:
        self.name = name
        self._client = client
        self._topic = topic
        self._wanted = wanted
        self._renewed_at = 0.0
        self._watch: Watch | None = None

    async def __aenter__(self) -> Self:
        call = calls.create_queue(
            self.name,
            topic=self._topic,
            exclusive=True,
            keep_alive=_KEEP_ALIVE,
            filter=self._wanted,
        )
        await self._client.run(call)
        self._renewed_at = monotonic()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._watch is not None:
            await self._watch.__aexit__(kind, problem, trace)
        # The queue expires by itself, so leaving does not wait long for an unavailable database.
        with suppress(UnknownQueue, QueueExpired, DatabaseUnavailable):
            call = calls.delete_queue(self.name)
            await self._client.database.run(call, retry_for=_LEAVE_WITHIN)

    async def take(self, timeout: float) -> list[ClaimedMessage]:  # noqa: ASYNC109
        """What has arrived, taken out of the queue; none when the time was up first."""
        end = monotonic() + timeout
        while not (taken := await self._take_now()):
            left = end - monotonic()
            if left <= 0:
                break
            await self._rest(left)
        return taken

    async def _take_now(self) -> list[ClaimedMessage]:
        token = new_token()
        found = await self._client.database.claim(
            calls.consume_batch(self.name, token, _CLAIM_FOR, _BATCH)
        )
        if found:
            await self._client.run(calls.ack_many(self.name, [each.id for each in found], token))
        return found

    async def _rest(self, left: float) -> None:
        """Sleep until something may have arrived."""
        if monotonic() - self._renewed_at > _RENEW_AFTER:
            await self._client.run(calls.extend_keep_alive(self.name, _KEEP_ALIVE))
            self._renewed_at = monotonic()
        if self._watch is None:
            # The first look after this finds what came before LISTEN was in force.
            self._watch = self._client.listener.watch(calls.channel(self.name))
            await self._watch.__aenter__()
        await self._client.run(calls.start_waiting(self.name, timedelta(seconds=5)))
        await self._watch.wait(min(left, _LONGEST_REST))
