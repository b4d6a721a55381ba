"""What becomes of a message after its handler: decided here, carried out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from penstock.client.values import LONGEST_ERROR, described, duration, storable
from penstock.errors import PayloadInvalid

if TYPE_CHECKING:
    from datetime import timedelta

__all__ = ["LONGEST_ERROR", "Dead", "Outcome", "Retry", "Verdict", "described", "outcome_of"]


class Retry(Exception):
    """Raise it in a handler to see the message again: after `delay`, or the queue's own backoff."""

    def __init__(self, delay: timedelta | None = None, reason: str | None = None) -> None:
        super().__init__(reason or "the handler asked for another attempt")
        # Checked where it is raised: an invalid delay could not be sent to the database.
        self.delay = duration("delay", delay)
        self.reason = reason

    def __reduce__(self) -> tuple[type[Retry], tuple[timedelta | None, str | None]]:
        # Exceptions are pickled by their text alone, and this one may come from another process.
        return Retry, (self.delay, self.reason)


class Dead(Exception):
    """Raise it in a handler when trying again is of no use: the message becomes a dead letter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Verdict(Enum):
    """What the database is told."""

    ACK = "ack"
    RETRY = "retry"
    RELEASE = "release"
    """Back to the queue, and the attempt does not count."""
    BURY = "bury"
    SETTLED = "settled"
    """Nothing more: it was acked in the handler's transaction."""
    BY_HANDLER = "by handler"
    """Nothing more: the handler has said itself what is to become of the message."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One message's end; equal outcomes travel together."""

    verdict: Verdict
    error: str | None = None
    delay: timedelta | None = None
    kind: str | None = None
    """The name of the error's type: what logs and metrics may show."""


ACKED = Outcome(Verdict.ACK)
RELEASED = Outcome(Verdict.RELEASE)
SETTLED = Outcome(Verdict.SETTLED)
BY_HANDLER = Outcome(Verdict.BY_HANDLER)


def outcome_of(problem: BaseException) -> Outcome:
    """What a handler's exception asks for."""
    kind = type(problem).__name__
    match problem:
        case Retry():
            return Outcome(Verdict.RETRY, storable(str(problem)), problem.delay, kind)
        case Dead():
            return Outcome(Verdict.BURY, storable(problem.reason), kind=kind)
        case PayloadInvalid():
            return Outcome(Verdict.BURY, storable(str(problem)), kind=kind)
        case _:
            return Outcome(Verdict.RETRY, described(problem), kind=kind)
