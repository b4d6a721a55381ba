"""The log as Spark reads it: which topics, from where to where, in which tasks.

The database decides what is read; here are the questions to it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import schema
from penstock.errors import PermissionDenied, UnknownTopic
from penstock.spark.source import log_queries, sparse_columns
from penstock.spark.source.offsets import Window, beginning_of, is_within, kept_from, members, plain
from penstock.spark.source.option_names import InvalidOption
from penstock.spark.source.source_options import EARLIEST

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql.types import StructType

    from penstock.spark.source.driver_connection import DriverConnection
    from penstock.spark.source.offsets import Offset
    from penstock.spark.source.source_options import ReadOptions, Start

_TOPICS = "select id, name from penstock.readable_topics(%(names)s::text[], %(pattern)s)"
_QUEUES = """
select id, name, topic_id
from penstock.readable_queues(%(names)s::text[], %(topic_ids)s::bigint[])
"""
# A list of topics is missing in offsets of the release before.
_TOPICS_BEFORE = """
select distinct r.topic_name
from penstock.list_streams() s
cross join lateral unnest(s.readers) as n(name)
left join penstock.list_readers() r on r.name = n.name
where s.name = %(group)s and s.entity = 'messages' and not s.current_offset ? 'topics'
"""
_OFFSET = """
select penstock.log_offset(%(beginning)s, %(since)s::timestamptz, %(floors)s::jsonb, %(group)s)
"""
_SAFE = "select penstock.safe_offset(%(lost)s::jsonb, %(group)s)"
_NEXT = """
select end_offset, row_count from penstock.next_offset(
    %(topic_ids)s::bigint[], %(start)s::jsonb, %(target)s::jsonb, %(max_rows)s::bigint,
    %(max_bytes)s::bigint, %(min_rows)s::bigint, %(may_lose)s, %(group)s)
"""
_NEXT_RECEIPTS = """
select end_offset, row_count from penstock.next_receipts(
    %(queue_ids)s::bigint[], %(start)s::jsonb, %(target)s::jsonb, %(max_rows)s::bigint,
    %(min_rows)s::bigint, %(group)s)
"""
_SPLIT = """
select after_id, through_id from penstock.split_log(
    %(topic_ids)s::bigint[], %(start)s::jsonb, %(end)s::jsonb, %(max_rows)s::bigint, %(parts)s::int)
where after_id < through_id
"""
_SPLIT_RECEIPTS = """
select after_xid::text::bigint, through_xid::text::bigint from penstock.split_receipts(
    %(queue_ids)s::bigint[], %(start)s::jsonb, %(end)s::jsonb, %(max_rows)s::bigint)
"""

_logger = logging.getLogger("penstock.spark")


@dataclass(frozen=True, slots=True)
class Scope:
    """What is read: topics, and for history the queues."""

    topics: tuple[tuple[int, str], ...]
    queues: tuple[tuple[int, str], ...] = ()

    @property
    def topic_ids(self) -> list[int]:
        return [number for number, _name in self.topics]

    @property
    def queue_ids(self) -> list[int]:
        return [number for number, _name in self.queues]

    def of_batch(self, end: Offset) -> Scope:
        """What the batch before an offset holds of this."""
        key = "queues" if self.queues else "topics"
        held = members(end, key)
        if held is None:
            return self
        ids = set(held.values())
        kept = tuple(each for each in getattr(self, key) if each[0] in ids)
        return Scope(self.topics, kept) if self.queues else Scope(kept)

    @classmethod
    def of_offset(cls, end: Offset, entity: str) -> Scope | None:
        """What the batch before an offset holds, whatever is read by now; None: it does not say."""
        held = members(end, "queues" if entity == "receipts" else "topics")
        if held is None:
            return None
        found = tuple((held[name], name) for name in held)
        return cls((), found) if entity == "receipts" else cls(found)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the log for one task: ids, or transactions of receipts, above and up to."""

    after: int
    through: int


class Log:
    """Questions about the log."""

    def __init__(self, database: DriverConnection, options: ReadOptions) -> None:
        self._database = database
        self._options = options
        self._warned: Offset | None = None
        """The lost offset of the last warning."""

    def check_version(self) -> None:
        """Raise unless the engine is there in the version that this package works with."""
        self._database.persist(schema.check)

    def scope(self) -> Scope:
        """The topics and queues that the options name, checked."""
        options = self._options
        if options.entity == "receipts":
            return self._history()
        return Scope(self._topics())

    def _topics(self) -> tuple[tuple[int, str], ...]:
        options = self._options
        return self._readable(None if options.pattern else list(options.topics), options.pattern)

    def _readable(
        self, names: list[str] | None, pattern: str | None = None
    ) -> tuple[tuple[int, str], ...]:
        found = self._database.rows(_TOPICS, {"names": names, "pattern": pattern})
        return tuple((number, name) for number, name in found)

    def scope_before(self) -> Scope | None:
        """The topics of a group that the release before has read last; None: not known.

        That release kept a reader for each topic that it read, and no other.
        """
        group = self._options.group
        if group is None or self._options.entity != "messages":
            return None
        try:
            found = self._database.rows(_TOPICS_BEFORE, {"group": group})
        except PermissionDenied:
            # Both lists are for penstock_monitor; a stream may run without that right.
            return None
        if not found:
            return None
        return Scope(self._readable([name for (name,) in found if name is not None]))

    def left(self, scope: Scope, at: Offset) -> Scope:
        """What a batch holds, without topics that were deleted: their messages are gone.

        A topic or queue that is there and may not be read is an error, or it would be skipped.
        """
        known = self.safe(plain(at))
        if self._is_there(scope, known):
            return scope
        left = tuple(each for each in scope.topics if self._is_there(Scope((each,)), known))
        gone = ", ".join(name for number, name in scope.topics if (number, name) not in left)
        _logger.warning("a batch is read without topics that were deleted: %s", gone)
        return Scope(left)

    def _is_there(self, scope: Scope, at: Offset) -> bool:
        try:
            # Nothing lies between an offset and itself: the ids and the rights are checked.
            self._split(scope, at, at)
        except UnknownTopic:
            return False
        return True

    def _history(self) -> Scope:
        options = self._options
        named = bool(options.topics or options.pattern)
        topics = self._topics() if named else ()
        found = self._database.rows(
            _QUEUES,
            {
                "names": list(options.queues) or None,
                "topic_ids": [number for number, _name in topics] if named else None,
            },
        )
        return Scope(topics, tuple((number, name) for number, name, _topic in found))

    def beginning(self, since: datetime | None = None, floors: Any = None) -> Offset:
        return self._offset(beginning=True, since=since, floors=floors)

    def end(self) -> Offset:
        return self._offset(beginning=False)

    def _offset(
        self, *, beginning: bool, since: datetime | None = None, floors: Any = None
    ) -> Offset:
        asked = {
            "beginning": beginning,
            "since": since,
            "floors": as_json(floors),
            "group": self._options.group,
        }
        found: Offset = self._database.value(_OFFSET, asked, lasting=True)
        return found

    def start(self, start: Start, scope: Scope) -> Offset:
        """The offset that startingOffsets or endingOffsets stands for."""
        if start.offset is not None:
            return start.offset
        if start.floors is not None:
            self._check_floors(start.floors, scope)
            return self.beginning(floors=start.floors)
        return self.beginning() if start.word == EARLIEST else self.end()

    def _check_floors(self, floors: dict[str, int], scope: Scope) -> None:
        names = {name for _number, name in scope.topics}
        if unknown := sorted(floors.keys() - names):
            raise InvalidOption(
                f"startingOffsets names {', '.join(unknown)}, which is not among the topics read"
            )

    def next(self, scope: Scope, start: Offset, target: Offset | None, **limits: Any) -> Offset:
        """Where the next batch ends; the start itself when there is nothing."""
        asked = {
            "start": as_json(start),
            "target": as_json(target),
            "max_rows": limits.get("max_rows"),
            "min_rows": limits.get("min_rows"),
            "group": self._options.group,
        }
        if self._options.entity == "receipts":
            found = self._lasting(_NEXT_RECEIPTS, {**asked, "queue_ids": scope.queue_ids})
        else:
            asked["max_bytes"] = limits.get("max_bytes")
            asked["may_lose"] = not self._options.fail_on_data_loss
            found = self._lasting(_NEXT, {**asked, "topic_ids": scope.topic_ids})
        end: Offset = found[0][0]
        return end

    def safe(self, lost: Offset) -> Offset:
        """The offset itself; with onLostOffset=rewind, the point to go back to if it was lost."""
        if not self._options.rewind:
            return lost
        asked = {"lost": as_json(lost), "group": self._options.group}
        found: Offset = self._database.value(_SAFE, asked)
        if lost not in (found, self._warned):
            _warn(lost, found)
            self._warned = lost
        return found

    def tasks(
        self,
        wanted: StructType,
        scope: Scope,
        bounds: tuple[Offset, Offset],
        filters: log_queries.Filters,
        *,
        as_stream: bool,
    ) -> list[log_queries.ReadTask]:
        """The tasks that read what lies between two offsets.

        As a stream: messages in order, and an error when some of them are gone.
        """
        start, end = self._known(*bounds)
        if start == end or not is_within(start, end):
            return []
        messages = self._options.entity == "messages"
        scope = scope.of_batch(end)
        if not (scope.topics if messages else scope.queues):
            return []
        pieces = self._split(scope, start, end)
        checked = messages and as_stream and self._options.fail_on_data_loss
        read = log_queries.Read(
            self._options.entity,
            wanted,
            scope,
            Window.between(start, end),
            filters,
            log_queries.kept(scope, kept_from(start, end)) if checked else None,
            sparse_columns.guess(self._database, scope, wanted, pieces) if messages else (),
        )
        return [read.task(piece, ordered=as_stream) for piece in pieces]

    def _known(self, start: Offset, end: Offset) -> tuple[Offset, Offset]:
        """The bounds of a batch, as this database knows them."""
        return self.safe(plain(beginning_of(start, end))), self.safe(plain(end))

    def _split(self, scope: Scope, start: Offset, end: Offset) -> list[Piece]:
        """The pieces between two offsets, each small enough for one task."""
        asked: dict[str, Any] = {
            "start": as_json(start),
            "end": as_json(end),
            "max_rows": self._options.rows_per_partition,
        }
        if self._options.entity == "receipts":
            found = self._lasting(_SPLIT_RECEIPTS, {**asked, "queue_ids": scope.queue_ids})
        else:
            asked |= {"topic_ids": scope.topic_ids, "parts": self._options.min_partitions}
            found = self._lasting(_SPLIT, asked)
        return [Piece(after, through) for after, through in found]

    def _lasting(self, statement: str, asked: dict[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of a statement whose time grows with the log."""
        return self._database.rows(statement, asked, lasting=True)


def _warn(lost: Offset, safe: Offset) -> None:
    _logger.warning(
        "the offset %s of timeline %s was lost in a fail-over or a restore: the stream goes back "
        "to snapshot %s; what lies between %s and %s may come twice, none is lost",
        lost.get("lsn"),
        lost.get("timeline"),
        safe["snap"],
        safe["snap"],
        lost["snap"],
    )


def as_json(value: Any) -> str | None:
    """An offset as the database takes it."""
    return None if value is None else json.dumps(value)
