"""How long the server may keep silent: a deadline on the driver's own conversation with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.abc import PQGen

T = TypeVar("T")

CANCEL_SECONDS = 2.0
"""How long to ask for an end of what is overdue, and how long to wait for the server's word."""
LASTING_SECONDS = 3600.0
"""For a call that takes the longer the more there is: nothing but a dead line takes this long."""


class Overdue(psycopg.OperationalError):
    """The server did not answer in time.

    `undone`: the server has said that it cancelled the call, so nothing was changed.  Otherwise the
    outcome is unknown.
    """

    def __init__(self, seconds: float, *, undone: bool = False) -> None:
        super().__init__(f"the server did not answer within {seconds:.3g} s")
        self.seconds = seconds
        self.undone = undone


class Trust:
    """Whether connections to one server are worth waiting for; the connections of a pool share it.

    When one of them gets no answer to a heartbeat, those that exist at that moment are given up.
    """

    def __init__(self) -> None:
        self._ended_at = float("-inf")

    def end(self, now: float) -> None:
        self._ended_at = now

    def covers(self, since: float) -> bool:
        """Whether a connection made, or a request sent, at that time can still be relied on."""
        return since > self._ended_at


def until(
    conversation: PQGen[T],
    deadline: float,
    seconds: float,
    trust: Trust,
    is_cancelled: Callable[[], bool],
) -> PQGen[T]:
    """The same conversation, but Overdue ends it at the deadline, or when the trust ends.

    It ends as well when its task was cancelled and the server does not answer to that: psycopg
    would wait for the answer.

    psycopg resumes a conversation every tenth of a second, whether anything has arrived or not.
    What was going on can be taken up again afterwards.
    """
    cancelled_at: float | None = None
    try:
        wanted = next(conversation)
        while True:
            ready = yield wanted
            if not ready:
                now = time.monotonic()
                if cancelled_at is None and is_cancelled():
                    cancelled_at = now
                given_up = cancelled_at is not None and now >= cancelled_at + CANCEL_SECONDS
                if given_up or now >= deadline or not trust.covers(deadline - seconds):
                    raise Overdue(min(seconds, seconds + now - deadline))
            wanted = conversation.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer
