"""Keeping claims alive: what to extend and what is lost is decided purely; the loop only acts."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.worker.source import Claim, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.worker.runner import Runner

# A claim with less than this share of its time left is extended: several more tries fit in.
EXTEND_BELOW = 0.5
# Reviews in one claim's time.
_REVIEWS = 6


@dataclass(frozen=True, slots=True)
class Review:
    extend: list[Claim]
    lost: list[Claim]


def review(held: Iterable[Claim], now: float, claim_for: float) -> Review:
    """Which claims to extend, and which have ended without an answer from the database."""
    extend: list[Claim] = []
    lost: list[Claim] = []
    for each in held:
        if each.finished:
            # By its handler, which may go on for as long as it likes: there is no claim any more.
            continue
        left = each.ends_at - now
        if left <= 0:
            lost.append(each)
        elif left <= claim_for * EXTEND_BELOW:
            extend.append(each)
    return Review(extend, lost)


class Heartbeat:
    """Reviews what a runner holds, several times in each claim's time."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._source = runner.source
        self._claim_for = runner.source.claim_for

    async def run(self) -> None:
        """Never ends by itself: a call that fails is made again at the next review."""
        while True:
            await asyncio.sleep(self._claim_for / _REVIEWS)
            await self.once()

    async def once(self) -> None:
        """Extend what has less than half its time left."""
        found = review(self._runner.claims.values(), time.monotonic(), self._claim_for)
        for each in found.lost:
            self._runner.lose(each)
        if found.extend:
            await self._extend(found.extend)

    async def _extend(self, chosen: list[Claim]) -> None:
        try:
            async with asyncio.timeout(self._claim_for * EXTEND_BELOW / 2):
                kept = await self._source.extend(chosen)
        except (PenstockError, TimeoutError):
            return
        for each in chosen:
            # One that is being settled may just have been: its own answer will tell.
            if each not in kept and each.stage is not Stage.SETTLING and not each.finished:
                self._runner.lose(each)
        self._source.tell_extended(len(kept))
