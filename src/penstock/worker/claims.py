"""Keeping claims alive: what to extend and what is lost is decided purely; the loop only acts."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

from penstock.client import calls
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from penstock.models import ClaimedMessage

# A claim with less than this share of its time left is extended: several more tries fit in.
EXTEND_BELOW = 0.5
# Reviews in one claim's time.
_REVIEWS = 6


class Stage(Enum):
    """How far a claimed message has come in this worker."""

    WAITING = "waiting"
    RUNNING = "running"
    SETTLING = "settling"
    """Its handler has ended, and the database is being told."""


class Held:
    """One claimed message in this worker's hands."""

    __slots__ = ("ends_at", "id", "lost", "message", "released", "stage", "task")

    def __init__(self, message: ClaimedMessage, ends_at: float) -> None:
        self.message = message
        self.id = message.id
        self.ends_at = ends_at
        """The claim's end on this process's steady clock; early rather than late."""
        self.stage = Stage.WAITING
        self.lost = False
        self.released = False
        """It was given back because the worker stops, whatever its handler still does."""
        self.task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class Review:
    extend: list[Held]
    lost: list[Held]


def review(held: Iterable[Held], now: float, claim_for: float) -> Review:
    """Which claims to extend, and which have ended without an answer from the database."""
    extend: list[Held] = []
    lost: list[Held] = []
    for each in held:
        left = each.ends_at - now
        if left <= 0:
            lost.append(each)
        elif left <= claim_for * EXTEND_BELOW:
            extend.append(each)
    return Review(extend, lost)


class Keeper:
    """Reviews what a handler holds, several times in each claim's time."""

    def __init__(
        self,
        database: Any,
        *,
        queue: str,
        token: str,
        claim_for: timedelta,
        held: Callable[[], Collection[Held]],
        lose: Callable[[Held], None],
        extended: Callable[[int], None],
    ) -> None:
        self._database = database
        self._queue = queue
        self._token = token
        self._claim_for = claim_for.total_seconds()
        # The engine takes whole seconds.
        self._extension = math.ceil(self._claim_for * EXTEND_BELOW)
        self._held = held
        self._lose = lose
        self._extended = extended

    async def run(self) -> None:
        """Never ends by itself: a call that fails is made again at the next review."""
        while True:
            await asyncio.sleep(self._claim_for / _REVIEWS)
            await self.once()

    async def once(self) -> None:
        found = review(self._held(), time.monotonic(), self._claim_for)
        for each in found.lost:
            self._lose(each)
        if found.extend:
            await self._extend(found.extend)

    async def _extend(self, chosen: list[Held]) -> None:
        call = calls.extend_many(
            self._queue,
            [each.id for each in chosen],
            self._token,
            timedelta(seconds=self._extension),
        )
        try:
            # Not durable, as the claim itself, and not on the connections that handlers may hold.
            async with asyncio.timeout(self._claim_for * EXTEND_BELOW / 2):
                kept = {message_id for message_id, _ in await self._database.claim(call)}
        except (PenstockError, TimeoutError):
            return
        for each in chosen:
            if each.id in kept:
                each.ends_at += self._extension
            elif each.stage is not Stage.SETTLING:
                # One that is being settled may just have been: its own answer will tell.
                self._lose(each)
        self._extended(len(kept))
