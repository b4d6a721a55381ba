"""Messages that are claimed and wait in memory for their turn, and what becomes of their claims.

Deadlines are kept on this process's monotonic clock, counted from before the claim was sent: so a
claim is taken for ended too early by a round trip, and never too late.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


class Claimed(Protocol):
    @property
    def id(self) -> int: ...


M = TypeVar("M", bound=Claimed)


@dataclass(frozen=True, slots=True)
class Held(Generic[M]):
    message: M
    ends_at: float


class ClaimedMessages(Generic[M]):
    """First in, first out.  The blocking client's threads share it."""

    def __init__(self, claim_for: float) -> None:
        self._claim_for = claim_for
        self._lock = threading.Lock()
        self._waiting: deque[Held[M]] = deque()
        self._moved_at = 0.0
        self._lost: list[M] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, messages: Iterable[M], claimed_at: float) -> None:
        with self._lock:
            if not self._waiting:
                self._moved_at = claimed_at
            ends_at = claimed_at + self._claim_for
            self._waiting.extend(Held(message, ends_at) for message in messages)

    def take(self, now: float) -> M | None:
        """The next one whose claim still holds."""
        with self._lock:
            while self._waiting:
                held = self._waiting.popleft()
                if held.ends_at > now:
                    self._moved_at = now
                    return held.message
                self._lost.append(held.message)
            return None

    def lost(self) -> list[M]:
        """Those whose claims ended here since the last call; the engine gives them out again."""
        with self._lock:
            lost, self._lost = self._lost, []
            return lost

    def review_at(self) -> float | None:
        """When to look after the claims again: at half of the time that the first has left."""
        with self._lock:
            if not self._waiting:
                return None
            return min(held.ends_at for held in self._waiting) - self._claim_for / 2

    def to_extend(self, now: float) -> list[M]:
        """Messages whose claims should be extended by `claim_for`."""
        with self._lock:
            soon = now + self._claim_for / 2
            return [held.message for held in self._waiting if held.ends_at <= soon]

    def extended(self, asked: Collection[int], granted: Collection[int]) -> None:
        """Claims that were asked for and not granted have ended: their messages are lost."""
        with self._lock:
            kept: deque[Held[M]] = deque()
            for held in self._waiting:
                if held.message.id in granted:
                    kept.append(replace(held, ends_at=held.ends_at + self._claim_for))
                elif held.message.id in asked:
                    self._lost.append(held.message)
                else:
                    kept.append(held)
            self._waiting = kept

    def stuck(self, now: float) -> bool:
        """Whether nothing has been taken for a whole claim: then others should get a chance."""
        with self._lock:
            return bool(self._waiting) and now - self._moved_at >= self._claim_for

    def surrender(self) -> list[M]:
        """Everything, to be released."""
        with self._lock:
            rest = [held.message for held in self._waiting]
            self._waiting.clear()
            return rest
