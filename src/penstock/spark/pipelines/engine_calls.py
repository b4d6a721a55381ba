"""What a pipeline asks the engine from the driver: small questions, by the client's own calls."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import schema
from penstock.client import calls
from penstock.client.calls import Call
from penstock.client.values import column
from penstock.postgres import connect
from penstock.postgres.call import run
from penstock.postgres.faults import LASTING_SECONDS
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from penstock.postgres._sync.connections import TimedConnection

T = TypeVar("T")

_GROUP_TOPICS = """
select r.topic_name
from penstock.list_streams() s join penstock.list_readers() r on r.name = any (s.readers)
where s.name = %s
"""
_LAG_SECONDS = 2.0


def open_connection(url: str, **options: Any) -> TimedConnection:
    """A connection of the driver, which the caller closes; `options` are those of `connect`."""
    connection = connect(Settings.load(dsn=url, application_name="penstock pipeline"), **options)
    # How long a pipeline's statements take grows with the data.
    connection.answer_within = LASTING_SECONDS
    return connection


@contextmanager
def connected(url: str) -> Iterator[TimedConnection]:
    """A short connection to a database that has the engine."""
    with open_connection(url) as connection:
        schema.check(connection)
        yield connection


def ask(url: str, call: Call[T]) -> T:
    with connected(url) as connection:
        return run(connection, call)


def identity(url: str) -> str:
    """Which database it is, however its address is spelt."""
    with connected(url) as connection:
        row = connection.execute(
            "select c.system_identifier, current_database() from pg_control_system() c"
        ).fetchone()
    assert row is not None
    return f"{row[0]}/{row[1]}"


def ensure_topic(url: str, topic: str) -> None:
    """Create the topic unless it is there."""
    ask(url, calls.create_topic(topic))


def ensure_topics(url: str, topics: Iterable[str]) -> None:
    with connected(url) as connection:
        for topic in topics:
            run(connection, calls.create_topic(topic))


def topic_names(url: str) -> set[str]:
    return {each.name for each in ask(url, calls.list_topics())}


def reader_lag(url: str, group: str, topics: Collection[str]) -> int | None:
    """Messages of the topics that a group's readers have not committed; None: no such reader."""
    found = [
        each.lag
        for each in ask(url, calls.list_readers())
        if (each.name == group or each.name.startswith(f"{group}:")) and each.topic in topics
    ]
    return sum(found) if found else None


def group_topics(url: str, group: str) -> set[str]:
    """The topics that a group has readers of."""
    return set(ask(url, Call(_GROUP_TOPICS, (group,), column(str))))


class Lag:
    """Messages that a group has not dealt with yet; a figure may be two seconds old."""

    def __init__(self, url: str, group: str, topics: Collection[str]) -> None:
        self._url, self._group, self._topics = url, group, topics
        self._known: int | None = None
        self._asked = float("-inf")

    def __call__(self) -> int | None:
        if time.monotonic() - self._asked > _LAG_SECONDS:
            self._known = reader_lag(self._url, self._group, self._topics)
            self._asked = time.monotonic()
        return self._known
