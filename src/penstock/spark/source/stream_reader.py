"""Streaming reads: batches between two offsets, chosen in the database and kept there by name.

What Spark asks, and what it does not tell, shapes this file:

- `initialOffset` is asked for twice, and again when batch 0 is run anew, so a stream from `latest`
  keeps the first answer in the database, under its group.
- `commit` comes only with the next batch, and never for the last one of an AvailableNow run.  But
  `latestOffset(start)` is asked for when everything before `start` is done: progress is noted then.
- An idle stream asks every few milliseconds, so the waiting is done here, on LISTEN.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import sql
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.errors import UnknownTopic
from penstock.spark.source import arrow_rows, log_queries
from penstock.spark.source.driver_connection import DriverConnection
from penstock.spark.source.message_log import Log, Scope, as_json
from penstock.spark.source.offsets import Offset, plain, same
from penstock.spark.source.portable_code import Portable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import psycopg
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from penstock.spark.source.source_options import ReadOptions

_OPEN = """
select penstock.open_stream(
    %(group)s, %(topic_ids)s::bigint[], %(start)s::jsonb, %(entity)s, %(alone)s)
"""
_COMMIT = "select penstock.commit_stream(%(group)s, %(offset)s::jsonb)"
T = TypeVar("T")
# Spark stops a stream by ending its process, and may have to wait this long for an idle one.
_LONGEST_SECONDS = 0.5
_REGISTER = "select penstock.wait_for_log(%(topic_ids)s::bigint[], 2)"


class PenstockStreamReader(Portable, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream's conversation with Spark."""

    def __init__(self, info: str, options: ReadOptions, schema: StructType) -> None:
        self._info = info
        self._options = options
        self._schema = schema
        self._database = DriverConnection(info)
        self._log = Log(self._database, options)
        self._scope: Scope | None = None
        self._target: Offset | None = None
        self._committed: Offset | None = None
        self._opened: Scope | None = None
        """The topics whose log the group keeps."""
        self._batch_at: float | None = None
        """When the last batch was given; the delay of small batches counts from it."""
        self._planned: tuple[Offset, Offset, list[log_queries.ReadTask]] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        scope = self._topics()
        if self._options.since is not None:
            start: Offset | None = self._log.beginning(since=self._options.since)
        elif self._options.start.word == "latest":
            start = None
        else:
            start = self._log.start(self._options.start, scope)
        if self._options.group is None:
            assert start is not None, "options.py wants a group for streams from latest"
            return start
        # A batch that the release before has begun is ended first, and holds the topics that the
        # group has readers of.  So others get theirs afterwards, when progress is noted.
        return self._open(self._log.scope_before() or scope, start)

    def _open(self, scope: Scope, start: Offset | None) -> Offset:
        opened: Offset = self._database.value(
            _OPEN,
            {
                "group": self._options.group,
                "topic_ids": scope.topic_ids,
                "start": as_json(start),
                "entity": self._options.entity,
                "alone": self._options.pattern is None,
            },
        )
        self._opened = scope
        return opened

    def _topics(self) -> Scope:
        """The topics; with a pattern, new ones are noticed."""
        if self._scope is None or self._options.pattern is not None:
            self._scope = self._log.scope()
        return self._scope

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark hands it back to `latestOffset`."""
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes is not None:
            return ReadMaxBytes(self._options.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._log.end()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        known = self._log.safe(plain(start))
        scope = self._topics()
        self._note_progress(known, scope)
        end = self._log.next(scope, known, self._target, **self._limits(limit))
        if same(known, end) and self._target is None:
            end = wait_for_messages(
                self._database,
                scope.topic_ids or [],
                lambda: self._log.next(scope, known, None, **self._limits(limit)),
                lambda found: not same(known, found),
            )
        if same(known, end):
            return start
        self._batch_at = time.monotonic()
        # Spark will name the start that was lost, so the end says where the batch begins.
        return end if known == plain(start) else {**end, "rewind": known}

    def _limits(self, limit: ReadLimit) -> dict[str, int | None]:
        most, size, least = self._options.max_rows, self._options.max_bytes, self._options.min_rows
        match limit:
            case ReadMaxRows():
                most = limit.max_rows if most is None else min(most, limit.max_rows)
            case ReadMaxBytes():
                size = limit.max_bytes if size is None else min(size, limit.max_bytes)
            case ReadMinRows():
                least = limit.min_rows if least is None else max(least, limit.min_rows)
            case _:
                pass
        return {"max_rows": most, "max_bytes": size, "min_rows": self._least(least)}

    def _least(self, least: int | None) -> int | None:
        """How many messages are worth a batch now; all that are there, once they waited enough."""
        if least is None or self._target is not None:
            return None
        if self._batch_at is None:
            self._batch_at = time.monotonic()
        waited = time.monotonic() - self._batch_at
        return None if waited >= self._options.max_delay.total_seconds() else least

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        return None

    def partitions(self, start: Offset, end: Offset) -> Sequence[log_queries.ReadTask]:
        # Spark may ask several times for one batch and wants the same answer.
        if self._planned is None or self._planned[:2] != (start, end):
            self._planned = (start, end, self._plan(start, end))
        return self._planned[2]

    def _plan(self, start: Offset, end: Offset) -> list[log_queries.ReadTask]:
        # A start by time is part of the offset.
        filters = log_queries.Filters(tenant=self._options.tenant, key=self._options.key)
        noted = Scope.of_offset(end, self._options.entity)
        scope = noted or self._log.scope_before() or self._topics()
        plan = partial(
            self._log.tasks, self._schema, bounds=(start, end), filters=filters, as_stream=True
        )
        try:
            return plan(scope)
        except UnknownTopic:
            # Asked only now: asking before each batch would cost every batch a round trip.
            return plan(self._log.left(scope, end))

    def held(self, end: Offset) -> Scope | None:
        """What the batch before an offset holds, as far as it is there; None: not known.

        A batch that is done again holds what it held, whatever is subscribed to by now.
        """
        scope = Scope.of_offset(end, self._options.entity)
        return self._log.scope_before() if scope is None else self._log.left(scope, end)

    def read(self, partition: log_queries.ReadTask) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        return arrow_rows.run(self._info, partition, self._schema)

    def commit(self, end: Offset) -> None:
        self._note_progress(self._log.safe(plain(end)), self._topics())

    def _note_progress(self, offset: Offset, scope: Scope) -> None:
        if self._options.group is None:
            return
        if self._opened != scope:
            # After a restart the question where the stream began is not asked, and with a pattern
            # topics are added: their readers must be there.
            self._open(scope, offset)
        if offset == self._committed:
            return
        self._database.value(_COMMIT, {"group": self._options.group, "offset": as_json(offset)})
        self._committed = offset

    def stop(self) -> None:
        self._database.close()


def wait_for_messages(
    database: DriverConnection,
    topic_ids: list[int],
    look: Callable[[], T],
    is_something: Callable[[T], bool],
) -> T:
    """Look again when a message was published, or after half a second at most.

    LISTEN comes first, then another look, then the wait: a message published in between is seen.
    """
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
