"""Claims on one queue take turns: how a client learns that its claim did not get one.

Such a claim returns no rows, like one on an empty queue; a notice tells the difference.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import QUEUE_BUSY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg.errors import Diagnostic

    from penstock.client.calls import Call

T = TypeVar("T")


@contextmanager
def missed(connection: Any, call: Call[T]) -> Iterator[Callable[[T], T]]:
    """Run a call inside; what is given turns its answer into the one of a claim without a turn."""
    busy = call.busy
    if busy is None:
        yield lambda answer: answer
        return
    notices: list[str | None] = []

    def note(diagnostic: Diagnostic) -> None:
        if diagnostic.sqlstate == QUEUE_BUSY:
            notices.append(diagnostic.message_primary)

    connection.add_notice_handler(note)
    try:
        yield lambda answer: busy if notices else answer
    finally:
        connection.remove_notice_handler(note)
