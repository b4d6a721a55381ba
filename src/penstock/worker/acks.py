"""Sends the outcomes of messages to the database in batches; no handler waits for it.

When no call is under way the next one starts at once; what gathers meanwhile goes with the one
after it.  While more messages wait for their handler, acks gather a moment longer: one call for ten
costs the database little more than one for one.  So an idle worker acks without delay, and a busy
one in large batches.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias

from penstock.cancellation import end
from penstock.errors import PenstockError
from penstock.worker.outcomes import ACKED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from penstock.models import MessageId
    from penstock.worker.claims import Held
    from penstock.worker.outcomes import Outcome

    # The ids that the token still held, and whether each has become a dead letter.
    Answer: TypeAlias = Mapping[MessageId, bool]
    Send: TypeAlias = Callable[[Outcome, list[MessageId]], Awaitable[Answer]]
    Finished: TypeAlias = Callable[[list[Held], Outcome, Answer], None]

_LARGEST_CALL = 1000
_GATHERING_SECONDS = 0.01
_FIRST_PAUSE_SECONDS = 0.2
_LONGEST_PAUSE_SECONDS = 5.0

Pending: TypeAlias = "list[tuple[Held, Outcome]]"


class Settler:
    """Sends the outcomes of one queue's messages; a failed call is repeated while claims last."""

    def __init__(
        self, send: Send, finished: Finished, *, enough: int, busy: Callable[[], bool]
    ) -> None:
        """`enough`: so many need not gather longer; `busy`: whether more messages wait."""
        self._send = send
        self._finished = finished
        self._enough = enough
        self._busy = busy
        self._pending: Pending = []
        self._hurried = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, held: Held, outcome: Outcome) -> None:
        """Have it sent; returns at once."""
        self._pending.append((held, outcome))
        if not self._may_gather(held, outcome):
            self._hurried.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._drain())

    def _may_gather(self, held: Held, outcome: Outcome) -> bool:
        # The next message of a key may be waiting in the database for this ack.
        plain = outcome is ACKED and held.message.key is None
        return plain and len(self._pending) < self._enough and self._busy()

    async def drained(self) -> None:
        """Return when everything has been sent and answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def give_up(self) -> None:
        """Stop sending: what is left ends with its claim."""
        if self._task is not None:
            await end([self._task])

    async def _drain(self) -> None:
        try:
            while self._pending:
                await self._gathered()
                batch, self._pending = self._pending, []
                for outcome, held in grouped(batch):
                    await self._until_answered(outcome, held)
        finally:
            self._task = None

    async def _gathered(self) -> None:
        if not self._hurried.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_GATHERING_SECONDS):
                    await self._hurried.wait()
        self._hurried.clear()

    async def _until_answered(self, outcome: Outcome, held: list[Held]) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while held:
            try:
                kept = await self._send(outcome, [each.id for each in held])
            except PenstockError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
                # Leave out lost claims: another consumer may have the message by now.
                held = [each for each in held if not each.lost]
            else:
                self._finished(held, outcome, kept)
                return


def grouped(batch: Pending) -> Iterator[tuple[Outcome, list[Held]]]:
    """Equal outcomes together, in the order of their first, in calls of a bearable size."""
    groups: dict[Outcome, list[Held]] = {}
    before: Outcome | None = None
    members: list[Held] = []
    for held, outcome in batch:
        if outcome is not before:
            # Most follow one of their kind, so most need not be looked up.
            members, before = groups.setdefault(outcome, []), outcome
        if not held.lost:
            members.append(held)
    for outcome, members in groups.items():
        for start in range(0, len(members), _LARGEST_CALL):
            yield outcome, members[start : start + _LARGEST_CALL]
