"""What becomes of a message after its handler: decided here, carried out elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from penstock.errors import PayloadInvalid

if TYPE_CHECKING:
    from datetime import timedelta

# A dead letter's error is read by a person, so a page of it is enough.
LONGEST_ERROR = 2000


class Retry(Exception):
    """Raise it in a handler to see the message again: after `delay`, or the queue's own backoff."""

    def __init__(self, delay: timedelta | None = None, reason: str | None = None) -> None:
        super().__init__(reason or "the handler asked for another attempt")
        self.delay = delay
        self.reason = reason

    def __reduce__(self) -> tuple[type[Retry], tuple[timedelta | None, str | None]]:
        # Exceptions are pickled by their text alone, and this one may come from another process.
        return Retry, (self.delay, self.reason)


class Dead(Exception):
    """Raise it in a handler when trying again is of no use: the message becomes a dead letter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


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
            return Outcome(Verdict.RETRY, _storable(str(problem)), problem.delay, kind)
        case Dead():
            return Outcome(Verdict.BURY, _storable(problem.reason), kind=kind)
        case PayloadInvalid():
            return Outcome(Verdict.BURY, _storable(str(problem)), kind=kind)
        case _:
            return Outcome(Verdict.RETRY, described(problem), kind=kind)


def described(problem: BaseException) -> str:
    """Type and message, as a dead letter shows them."""
    kind, text = type(problem).__qualname__, str(problem)
    return _storable(f"{kind}: {text}" if text else kind)


def _storable(text: str) -> str:
    # PostgreSQL has no U+0000, and half a surrogate pair can't be sent.
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= LONGEST_ERROR else clean[: LONGEST_ERROR - 1] + "…"
