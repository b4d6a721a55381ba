"""Has the server hung up while a connection was idle?  Asked without a round trip."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from psycopg import BaseConnection

# The server's last words and the end of the stream may arrive one after the other.
_LOOKS = 3


def check(connection: BaseConnection[Any]) -> None:
    """Raise OperationalError if the connection is known to be dead.

    An idle connection has nothing to read.  If it has, the server said goodbye, and a call sent now
    would end without an answer, though nothing was wrong with it.
    """
    for _ in range(_LOOKS):
        if not _readable(connection):
            return
        connection.pgconn.consume_input()
    if connection.pgconn.status != psycopg.pq.ConnStatus.OK:
        raise psycopg.OperationalError("the server closed the connection")


def _readable(connection: BaseConnection[Any]) -> bool:
    waiting = select.poll()
    waiting.register(connection.pgconn.socket, select.POLLIN | select.POLLHUP)
    return bool(waiting.poll(0))
