"""What becomes of a message after its handler: decided here, carried out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from penstock.client.values import LONGEST_ERROR, described, duration, storable
from penstock.errors import PayloadInvalid

__all__ = ["LONGEST_ERROR", "Dead", "Outcome", "Retry", "Verdict", "described", "outcome_of"]

LONGEST_DELAY = timedelta(days=365)
"""A retry is not put off for longer: the engine takes no more."""


class Retry(Exception):
    """Raise it in a handler to see the message again: after `delay`, or the queue's own backoff.

    A negative delay is none, and one of more than a year is a year.
    """

    def __init__(self, delay: timedelta | None = None, reason: str | None = None) -> None:
        super().__init__(reason or "the handler asked for another attempt")
        # Checked where it is raised: a delay that is no duration could not be sent.
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


class TookTooLong(Exception):
    """The handler used up the time that it may take for one message."""


class FailedElsewhere(Exception):
    """An error of another process that can't be rebuilt here: what is known of it."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.error)
        self.outcome = outcome


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
    result: bytes | None = None
    """What a task's handler returned."""


ACKED = Outcome(Verdict.ACK)
RELEASED = Outcome(Verdict.RELEASE)
SETTLED = Outcome(Verdict.SETTLED)
BY_HANDLER = Outcome(Verdict.BY_HANDLER)


def outcome_of(problem: BaseException) -> Outcome:
    """What a handler's exception asks for."""
    kind = type(problem).__name__
    match problem:
        case FailedElsewhere():
            return problem.outcome
        case Retry():
            return Outcome(Verdict.RETRY, storable(str(problem)), possible(problem.delay), kind)
        case Dead():
            return Outcome(Verdict.BURY, storable(problem.reason), kind=kind)
        case PayloadInvalid():
            return Outcome(Verdict.BURY, storable(str(problem)), kind=kind)
        case _:
            return Outcome(Verdict.RETRY, described(problem), kind=kind)


def possible(delay: timedelta | None) -> timedelta | None:
    """The nearest delay that the database takes."""
    return None if delay is None else min(max(delay, timedelta(0)), LONGEST_DELAY)
