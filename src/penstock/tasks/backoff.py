"""How long a failed task waits."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from penstock.tasks.errors import InvalidTask

_LARGEST_EXPONENT = 60


@dataclass(frozen=True, slots=True)
class Backoff:
    """1 s, 2 s, 4 s … up to 5 min, each up to a fifth more or less: many fail at the same time."""

    base: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(minutes=5)
    factor: float = 2.0
    jitter: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 1:
            raise InvalidTask(f"jitter is {self.jitter}: a share from 0 to 1 is needed")
        if self.factor < 1 or self.base < timedelta(0):
            raise InvalidTask("a backoff's factor is at least 1, and its base not negative")

    def delay(self, attempt: int, luck: float | None = None) -> timedelta:
        """The pause after this attempt, the first being 1; `luck` from 0 to 1 fixes the jitter."""
        luck = random.random() if luck is None else luck  # noqa: S311 - no secret
        growth = self.factor ** min(max(attempt, 1) - 1, _LARGEST_EXPONENT)
        # Seconds as a float, which has room for what a timedelta has not.
        seconds = min(self.longest.total_seconds(), self.base.total_seconds() * growth)
        return timedelta(seconds=seconds) * (1 - self.jitter + 2 * self.jitter * luck)
