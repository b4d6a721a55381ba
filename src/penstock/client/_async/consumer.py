"""`mq.consume(…)`: messages of one queue, one after the other, for as long as the caller likes.

A background loop claims; the caller's loop only takes from memory.  So a caller who is cancelled
while he waits loses nothing that was just claimed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from penstock.client._async.concurrency import Background, Lock, monotonic
from penstock.client._async.feeder import Feeder
from penstock.client.payloads import codec_for
from penstock.observe import events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from penstock.client._async.core import Core
    from penstock.client._async.message import Message
    from penstock.client.consuming import Options

P = TypeVar("P")

# A claim under way when the consumer is closed gets this long to come back and be released.
_LAST_CLAIM_SECONDS = 5.0


class Consumer(Generic[P]):
    """Iterate over it, or take messages with `get()`; several tasks may share one.

    Left alone, a loop opens and closes the consumer.  As a context manager it can be used again
    and again, until its block ends.
    """

    def __init__(
        self, client: Core, queue: str, options: Options, payload_type: type[P] | None = None
    ) -> None:
        self._client = client
        self._options = options
        self._feeder: Feeder[P] = Feeder(client, queue, options, codec_for(payload_type))
        self._background = Background(self._feeder.run, f"penstock consumer of {queue}")
        self._lock = Lock()
        self._opened = self._closed = False

    async def get(self, timeout: timedelta | float | None = None) -> Message[P] | None:  # noqa: ASYNC109
        """The next message; None when none came in time, or the consumer was closed.

        A bare number is seconds.
        """
        await self.open()
        feeder = self._feeder
        if isinstance(timeout, timedelta):
            timeout = timeout.total_seconds()
        end = None if timeout is None else monotonic() + timeout
        while not self._closed:
            if (message := self._take()) is not None:
                return message
            if feeder.failure is not None:
                raise feeder.failure
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                break
            feeder.hungry = True
            feeder.asked.set()
            await feeder.arrived.wait(left)
            feeder.arrived.clear()
        if self._closed:
            feeder.arrived.set()
        return None

    def _take(self) -> Message[P] | None:
        feeder = self._feeder
        message = feeder.holding.take(monotonic())
        for lost in feeder.holding.lost():
            feeder.emit(events.Name.CLAIM_LOST, message_id=lost.id)
        if len(feeder.holding):
            # Somebody else may be waiting, and we have used up the signal.
            feeder.arrived.set()
        if len(feeder.holding) < self._options.prefetch:
            feeder.asked.set()
        return message

    async def __aiter__(self) -> AsyncIterator[Message[P]]:
        # A generator, because Python closes it when the loop is left, by `break` as by an error.
        ours = not self._opened
        try:
            while (message := await self.get()) is not None:
                yield message
        finally:
            if ours:
                await self.close()

    async def open(self) -> None:
        """Begin to claim; taking the first message does it too."""
        if not self._opened:
            self._opened = True
            self._client.consumers.add(self)
            self._background.start()

    async def close(self) -> None:
        """Stop claiming, and release what was claimed and not handed out."""
        async with self._lock:
            self._closed = True
            self._feeder.stop()
            try:
                await self._background.stop(_LAST_CLAIM_SECONDS)
                await self._feeder.release()
            finally:
                self._client.consumers.discard(self)
                # Whoever waits in `get` finds the consumer closed, and wakes the next.
                self._feeder.arrived.set()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
