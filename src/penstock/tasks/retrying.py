"""Running work on a database again when that may help: decided here, for every database."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeVar

from penstock.observe.events import Event, Name, emit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

T = TypeVar("T")

_FIRST_CONFLICT_PAUSE = 0.005
_LONGEST_CONFLICT_PAUSE = 0.5
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_LARGEST_EXPONENT = 30


class Fault(Enum):
    """What an error means for the work that met it."""

    CONFLICT = auto()
    """Deadlock, lock timeout, serialization: rolled back, so it is as if it had not run."""
    AWAY = auto()
    """No connection, or one that broke: what ran on it may or may not have been committed."""
    REFUSED = auto()
    """Anything else: running it again would end the same way."""


@dataclass(frozen=True, slots=True)
class Try:
    """Which run of the work this is."""

    number: int = 1
    outcome_unknown: bool = False
    """An earlier run lost its connection: what it did may have been committed."""


def pause_before(number: int, fault: Fault, luck: float) -> float:
    """Seconds before the next run, after so many."""
    growth = 2.0 ** min(number - 1, _LARGEST_EXPONENT)
    if fault is Fault.CONFLICT:
        return min(_LONGEST_CONFLICT_PAUSE, _FIRST_CONFLICT_PAUSE * growth) * (0.5 + luck)
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * growth) * (0.75 + luck / 2)


async def persist(
    work: Callable[[Try], Awaitable[T]],
    classify: Callable[[Exception], Fault],
    retry_for: timedelta,
) -> T:
    """Run the work until it is done, refused, or the time is over."""
    deadline = time.monotonic() + retry_for.total_seconds()
    attempt = Try()
    while True:
        try:
            return await work(attempt)
        except Exception as problem:
            fault = classify(problem)
            pause = pause_before(attempt.number, fault, random.random())  # noqa: S311
            if fault is Fault.REFUSED or time.monotonic() + pause > deadline:
                raise
            emit(
                Event(
                    Name.CALL_RETRIED,
                    attempt=attempt.number,
                    seconds=pause,
                    error_kind=type(problem).__name__,
                )
            )
        unknown = attempt.outcome_unknown or fault is Fault.AWAY
        attempt = Try(attempt.number + 1, unknown)
        await asyncio.sleep(pause)
