"""Sleep until a topic has something: LISTEN, register, look once more, then sleep."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from penstock.spark.connecting import Database

T = TypeVar("T")

# Spark stops a stream by ending its process; so long it may have to wait for an idle one.
_LONGEST_SECONDS = 0.5
_REGISTER = "select penstock.wait_for_log(%(topic_ids)s::bigint[], 2)"


def wait_for_messages(
    database: Database,
    topic_ids: list[int],
    look: Callable[[], T],
    is_something: Callable[[T], bool],
) -> T:
    """Look again when a message was published, or after half a second at most."""
    if not topic_ids:
        time.sleep(_LONGEST_SECONDS)
        return look()
    database.persist(lambda conn: _register(conn, topic_ids))
    found = look()
    if is_something(found):
        return found
    database.persist(_sleep)
    return look()


def _register(conn: psycopg.Connection[Any], topic_ids: list[int]) -> None:
    channels = [row[0] for row in conn.execute(_REGISTER, {"topic_ids": topic_ids})]
    for channel in channels:
        conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))


def _sleep(conn: psycopg.Connection[Any]) -> None:
    for _ in conn.notifies(timeout=_LONGEST_SECONDS, stop_after=1):
        pass
