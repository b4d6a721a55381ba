"""How long the server may keep silent: a deadline on the driver's own conversation with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

import psycopg

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")

CANCEL_SECONDS = 2.0
"""How long to ask for an end of what is overdue, and how long to wait for the server's word."""
LASTING_SECONDS = 3600.0
"""For a call that takes the longer the more there is: nothing but a dead line takes this long."""


class Overdue(psycopg.OperationalError):
    """The server did not answer in time.

    `undone`: it has said that it gave up, so nothing was changed.  Else nobody knows.
    """

    def __init__(self, seconds: float, *, undone: bool = False) -> None:
        super().__init__(f"the server did not answer within {seconds:g} s")
        self.undone = undone


def until(conversation: PQGen[T], deadline: float, seconds: float) -> PQGen[T]:
    """The same conversation, but Overdue ends it when it lasts beyond the deadline.

    psycopg resumes a conversation every tenth of a second, whether anything has arrived or not.
    What was going on can be taken up again afterwards.
    """
    try:
        wanted = next(conversation)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= deadline:
                raise Overdue(seconds)
            wanted = conversation.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer
