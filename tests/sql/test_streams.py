"""Offsets, windows and groups of streams, in plain SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.sql.refusals import refused

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

Session = Any


class Stream:
    """A stream as a door reads it: batch by batch, each piece by the conditions of its window."""

    def __init__(
        self, db: Session, *topics: str, start: Any = None, name: str | None = None
    ) -> None:
        self.db = db
        self.name = name
        self.ids = [
            db.execute("select id from penstock.topics where name = %s", (name,)).fetchone()[0]
            for name in topics
        ]
        self.at = start or offset(db, beginning=True)

    def next(self, **limits: Any) -> Any:
        # Without a name as clients of the first release call it.
        given = limits if self.name is None else {**limits, "stream_name": self.name}
        named = "".join(f", {name} => %s" for name in given)
        [(end, _count)] = self.db.execute(
            f"select * from penstock.next_offset(%s, %s{named})",
            (self.ids, Jsonb(self.at), *given.values()),
        ).fetchall()
        return end

    def read(self, **limits: Any) -> list[Any]:
        """The payloads of the next batch; the stream then stands behind it."""
        end = self.next(**limits)
        found = self.between(self.at, end)
        self.at = end
        return found

    def between(self, start: Any, end: Any, rows: int = 1000) -> list[Any]:
        pieces = self.db.execute(
            "select after_id, through_id from penstock.split_log(%s, %s, %s, %s)",
            (self.ids, Jsonb(start), Jsonb(end), rows),
        ).fetchall()
        found = [row for low, high in pieces for row in self._piece(start, end, low, high)]
        return [payload for _id, payload in sorted(found)]

    def _piece(self, start: Any, end: Any, low: int, high: int) -> list[Any]:
        before, to = start["snap"], end.get("to", end)["snap"]
        ids = list(end["topics"].values()) if "topics" in end else self.ids
        if catch_up := end.get("catch_up"):
            before, to, ids = catch_up["from"]["snap"], start["snap"], [catch_up["of"]]
        rows = self.db.execute(
            "select id, payload from penstock.log where topic_id = any (%s) "
            "and id > %s and id <= %s "
            "and not pg_visible_in_snapshot(xid, %s::pg_snapshot) "
            "and pg_visible_in_snapshot(xid, %s::pg_snapshot)",
            (ids, low, high, before, to),
        ).fetchall()
        assert len(rows) <= 1000
        return rows


def offset(db: Session, *, beginning: bool = False) -> Any:
    return db.execute("select penstock.log_offset(%s)", (beginning,)).fetchone()[0]


def publish(db: Session, topic: str, *payloads: int) -> None:
    db.execute(
        "select count(*) from penstock.publish_messages(%s, %s::jsonb[])",
        (topic, [str(each) for each in payloads]),
    )


@pytest.fixture(autouse=True)
def topics(db: psycopg.Connection[Any]) -> None:
    for name in ("orders", "parcels"):
        db.execute("select penstock.create_topic(%s)", (name,))


def test_stream_reads_every_message_once(db: Session) -> None:
    stream = Stream(db, "orders", "parcels")
    publish(db, "orders", 1, 2)
    publish(db, "parcels", 3)
    assert stream.read() == [1, 2, 3]
    assert stream.read() == []
    publish(db, "orders", 4)
    assert stream.read() == [4]


def test_offset_stays_when_there_is_nothing_for_the_topics(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    before = stream.at
    publish(db, "parcels", 2)
    assert stream.next() == before


def test_limits_are_exact_and_batches_repeat(db: Session) -> None:
    publish(db, "orders", *range(10))
    stream = Stream(db, "orders")
    start = stream.at
    assert stream.read(max_rows=4) == [0, 1, 2, 3]
    middle = stream.at
    publish(db, "orders", 10, 11)
    assert stream.read(max_rows=4) == [4, 5, 6, 7]
    # A batch never goes beyond its window, so what came later is in the next.
    assert stream.read(max_rows=4) == [8, 9]
    assert stream.read(max_rows=4) == [10, 11]
    assert stream.between(start, middle) == [0, 1, 2, 3]


def test_bytes_are_limited_but_one_message_always_fits(db: Session) -> None:
    db.execute(
        "select count(*) from penstock.publish_messages('orders', "
        "(select array_agg(to_jsonb(repeat('x', 1000 + n))) from generate_series(1, 6) n))"
    )
    stream = Stream(db, "orders")
    assert [len(each) for each in stream.read(max_bytes=2500)] == [1001, 1002]
    assert [len(each) for each in stream.read(max_bytes=10)] == [1003]
    assert [len(each) for each in stream.read(max_bytes=100_000, max_rows=2)] == [1004, 1005]


def test_small_batches_wait_for_more(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    assert stream.read(min_rows=2) == []
    publish(db, "orders", 2)
    assert stream.read(min_rows=2) == [1, 2]


def test_late_and_rolled_back_publishers(db: Session, connect: Connect) -> None:
    slow, never = connect(autocommit=False), connect(autocommit=False)
    publish(slow, "orders", 1)
    publish(never, "orders", 2)
    publish(db, "orders", 3)
    stream = Stream(db, "orders")
    assert stream.read() == [3]
    publish(slow, "orders", 4)
    slow.commit()
    never.rollback()
    publish(db, "orders", 5)
    assert stream.read() == [1, 4, 5]
    assert stream.read() == []


def test_many_late_messages_are_cut_into_pieces(db: Session, connect: Connect) -> None:
    slow = connect(autocommit=False)
    publish(slow, "orders", *range(250))
    publish(db, "orders", 1000)
    stream = Stream(db, "orders")
    assert stream.read() == [1000]
    slow.commit()
    start, end = stream.at, stream.next()
    pieces = db.execute(
        "select count(*) from penstock.split_log(%s, %s, %s, 100)",
        (stream.ids, Jsonb(start), Jsonb(end)),
    ).fetchone()
    assert pieces is not None
    assert pieces[0] >= 3
    assert stream.between(start, end, 100) == list(range(250))


def test_sparse_topic_is_cut_by_counting(db: Session) -> None:
    # One message in a hundred is ours, so cutting by ids alone would give hundreds of pieces.
    for _ in range(30):
        publish(db, "orders", 1, 2)
        db.execute(
            "select setval('penstock_data.message_id', nextval('penstock_data.message_id') + 1000)"
        )
    stream = Stream(db, "orders")
    start, end = stream.at, stream.next()
    pieces = db.execute(
        "select after_id, through_id from penstock.split_log(%s, %s, %s, 25)",
        (stream.ids, Jsonb(start), Jsonb(end)),
    ).fetchall()
    assert len(pieces) == 3
    assert sorted(stream.between(start, end, 25)) == [1] * 30 + [2] * 30


def test_min_parts(db: Session) -> None:
    publish(db, "orders", *range(100))
    stream = Stream(db, "orders")
    pieces = db.execute(
        "select after_id, through_id from penstock.split_log(%s, %s, %s, 1000, 4)",
        (stream.ids, Jsonb(stream.at), Jsonb(stream.next())),
    ).fetchall()
    assert len(pieces) == 4
    assert pieces[-1][1] - pieces[0][0] == 100


def test_target_is_not_passed(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    target = offset(db)
    publish(db, "orders", 2)
    end = db.execute(
        "select end_offset from penstock.next_offset(%s, %s, %s)",
        (stream.ids, Jsonb(stream.at), Jsonb(target)),
    ).fetchone()[0]
    assert stream.between(stream.at, end) == [1]
    again = db.execute(
        "select end_offset from penstock.next_offset(%s, %s, %s)",
        (stream.ids, Jsonb(end), Jsonb(target)),
    ).fetchone()[0]
    assert again == end


def test_start_by_time_and_by_id(db: Session) -> None:
    publish(db, "orders", 1, 2)
    publish(db, "parcels", 3)
    by_id = db.execute(
        """select penstock.log_offset(true, floors => '{"orders": 2}')"""
    ).fetchone()[0]
    start = Stream(db, "orders", "parcels", start=by_id)
    end = start.next(max_rows=10)
    assert (end["floors"], start.next(max_rows=1)["id"]) == ({"orders": 2}, 2)
    by_time = db.execute(
        "select penstock.log_offset(true, since => clock_timestamp() + interval '1 hour')"
    ).fetchone()[0]
    late = Stream(db, "orders", start=by_time)
    # Nothing is wanted of what is there: the stream leaves it behind, once.
    left = late.next()
    assert left["snap"] != "3:3:"
    late.at = left
    assert late.next() == left


def test_offset_of_another_cluster_is_refused(db: Session) -> None:
    stream = Stream(db, "orders")
    stream.at = {**stream.at, "cluster": "12345/678"}
    with refused("PS015", "was taken in cluster 12345/678"):
        stream.next()
    future = {**offset(db), "snap": "9000000000:9000000000:"}
    with refused("PS015", "in the future"):
        Stream(db, "orders", start=future).next()


@pytest.mark.parametrize("bad", [{}, {"snap": 5}, {"snap": "five"}, 7, None])
def test_what_is_no_offset_is_refused(db: Session, bad: Any) -> None:
    with refused("PS005"):
        Stream(db, "orders", start={"snap": "3:3:"}).db.execute(
            "select * from penstock.next_offset('{1}', %s)", (Jsonb(bad),)
        )


@pytest.mark.parametrize("bad", [{}, {"snap": "five"}, 7, "x", []])
def test_what_is_no_offset_is_no_target(db: Session, bad: Any) -> None:
    stream = Stream(db, "orders")
    for call in ("next_offset(%s, %s, %s)", "next_receipts('{}', %s, %s)"):
        given = (stream.ids, Jsonb(stream.at), Jsonb(bad))[-call.count("%s") :]
        with refused("PS005"):
            db.execute(f"select * from penstock.{call}".encode(), given)


def test_receipts_begin_at_a_transaction(db: Session) -> None:
    start = {**offset(db, beginning=True), "xid": "five"}
    with refused("PS005", "no transaction id"):
        db.execute("select * from penstock.next_receipts('{}', %s)", (Jsonb(start),))


def test_truncated_log_is_noticed(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    empty_log(db)
    with refused("PS016", "topic 'orders'"):
        stream.next()
    with refused("PS016"):
        db.execute("select penstock.check_kept(%s, %s)", (stream.ids, Jsonb(stream.at)))
    assert stream.next(may_lose=True) == stream.at
    # Who begins now never had a right to what is gone.
    fresh = Stream(db, "orders")
    publish(db, "orders", 2)
    assert fresh.read() == [2]


def empty_log(db: Session) -> None:
    """Make maintain() empty the segment that is written to now."""
    db.execute("select penstock.configure('segment_bytes', '1')")
    for _ in range(4):
        db.execute("select * from penstock.maintain()")
    db.execute("select penstock.configure('segment_bytes', null)")


def open_stream(db: Session, name: str, stream: Stream, start: Any = None, **more: Any) -> Any:
    return db.execute(
        "select penstock.open_stream(%s, %s, %s, %s, %s)",
        (
            name,
            stream.ids,
            None if start is None else Jsonb(start),
            more.get("entity", "messages"),
            more.get("alone", True),
        ),
    ).fetchone()[0]


def commit(db: Session, name: str, at: Any) -> bool:
    return db.execute("select penstock.commit_stream(%s, %s)", (name, Jsonb(at))).fetchone()[0]


def lag(db: Session, name: str) -> int:
    return db.execute(
        "select lag from penstock.list_readers() where name = %s", (name,)
    ).fetchone()[0]


def test_group_remembers_where_it_began(db: Session) -> None:
    publish(db, "orders", 1)
    stream = Stream(db, "orders")
    first = open_stream(db, "copy", stream)
    publish(db, "orders", 2)
    assert open_stream(db, "copy", stream) == first
    stream.at = first
    assert stream.read() == [2]
    commit(db, "copy", stream.at)
    assert open_stream(db, "copy", stream, offset(db)) == first


def test_group_keeps_the_log_and_shows_its_lag(db: Session) -> None:
    stream = Stream(db, "orders")
    open_stream(db, "copy", stream, stream.at)
    publish(db, "orders", *range(10))
    assert lag(db, "copy") == 10
    empty_log(db)
    assert stream.read(max_rows=4) == [0, 1, 2, 3]
    assert commit(db, "copy", stream.at)
    assert not commit(db, "copy", stream.at)
    assert lag(db, "copy") == 6
    empty_log(db)
    assert stream.read() == [4, 5, 6, 7, 8, 9]
    commit(db, "copy", stream.at)
    assert lag(db, "copy") == 0
    empty_log(db)
    assert db.execute("select count(*) from penstock.log").fetchone() == (0,)


def test_group_of_several_topics_has_a_reader_for_each(db: Session) -> None:
    both, one = Stream(db, "orders", "parcels"), Stream(db, "parcels")
    open_stream(db, "copy", both)
    names = "select array_agg(name order by name) from penstock.list_readers()"
    assert db.execute(names).fetchone()[0] == ["copy:orders", "copy:parcels"]
    # A topic that is not read any more keeps its reader, until that is deleted.
    open_stream(db, "copy", one)
    assert db.execute(names).fetchone()[0] == ["copy:orders", "copy:parcels"]
    db.execute("select penstock.delete_reader('copy:orders')")
    assert db.execute("select readers from penstock.list_streams()").fetchone()[0] == [
        "copy:parcels"
    ]
    db.execute("select penstock.delete_stream('copy')")
    assert db.execute(names).fetchone()[0] is None
    with refused("PS003"):
        db.execute("select penstock.delete_stream('copy')")


def test_group_is_for_one_entity_and_takes_no_reader_of_others(db: Session) -> None:
    stream = Stream(db, "orders")
    db.execute("select penstock.create_reader('export', 'parcels')")
    with refused("PS006", "not of this stream"):
        open_stream(db, "export", stream)
    open_stream(db, "copy", stream)
    with refused("PS006", "reads messages, not receipts"):
        open_stream(db, "copy", stream, entity="receipts")


def test_only_those_with_a_reader_may_read(db: Session, connect: Connect) -> None:
    publish(db, "orders", 1)
    publish(db, "parcels", 2)
    db.execute("select penstock.create_reader('export', 'parcels', 'beginning')")
    consumer = connect(role="penstock_consumer")
    rows = consumer.execute("select topic, payload from penstock.log").fetchall()
    assert rows == [("parcels", 2)]
    with refused("PS009", "may not read the log of topic 'orders'"):
        consumer.execute("select * from penstock.readable_topics(array['orders'])")
    names = consumer.execute(
        "select name from penstock.readable_topics(pattern => '.*')"
    ).fetchall()
    assert names == [("parcels",)]
    db.execute("create role somebody")
    db.execute("select penstock.grant_reader('export', 'somebody')")
    assert consumer.execute("select * from penstock.log").fetchall() == []
    db.execute("select penstock.delete_reader('export')")
    db.execute("drop role somebody")


def test_topics_by_name_and_by_pattern(db: Session) -> None:
    find = "select array_agg(name) from penstock.readable_topics(%s, %s)"
    assert db.execute(find, (["parcels", "orders"], None)).fetchone()[0] == ["orders", "parcels"]
    assert db.execute(find, (None, "ord.*")).fetchone()[0] == ["orders"]
    for names, pattern, code in (
        (["gone"], None, "PS001"),
        (None, "gone.*", "PS001"),
        (None, "(", "PS005"),
        (None, None, "PS005"),
        (["orders"], "o.*", "PS005"),
    ):
        with refused(code):
            db.execute(find, (names, pattern))


def test_receipts_are_streamed_by_transaction(db: Session) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    publish(db, "orders", *range(10))
    start = offset(db, beginning=True)
    for size in (3, 3, 4):
        ids = [
            row[0]
            for row in db.execute(
                "select message_id from penstock.consume_messages_batch('billing', 'me', 30, %s)",
                (size,),
            )
        ]
        db.execute("select count(*) from penstock.ack_messages('billing', %s, 'me')", (ids,))
    [(queue,)] = db.execute("select id from penstock.readable_queues(array['billing'])").fetchall()
    seen = []
    at = start
    while True:
        end = db.execute(
            "select end_offset from penstock.next_receipts(%s, %s, null, 4)", ([queue], Jsonb(at))
        ).fetchone()[0]
        if end == at:
            break
        pieces = db.execute(
            "select after_xid::text, through_xid::text from penstock.split_receipts(%s, %s, %s, 2)",
            ([queue], Jsonb(at), Jsonb(end)),
        ).fetchall()
        batch = [
            row[0]
            for low, high in pieces
            for row in db.execute(
                "select message_id from penstock.receipt_log "
                "where xid > %s::xid8 and xid <= %s::xid8",
                (low, high),
            )
        ]
        seen.append(sorted(batch))
        at = end
    assert [len(each) for each in seen] == [6, 4]
    assert sorted(each for batch in seen for each in batch) == list(range(1, 11))


def test_history_is_kept_for_a_stream_of_receipts(db: Session) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    publish(db, "orders", 1)
    start = offset(db, beginning=True)
    open_stream(db, "history", Stream(db), start, entity="receipts")
    [(message, *_)] = db.execute(
        "select * from penstock.consume_message('billing', 'me')"
    ).fetchall()
    db.execute("select penstock.ack_message('billing', %s, 'me')", (message,))
    db.execute("select penstock.configure('receipt_retention', '0')")
    empty_log(db)
    assert db.execute("select count(*) from penstock.receipt_log").fetchone() == (1,)
    commit(db, "history", offset(db))
    empty_log(db)
    assert db.execute("select count(*) from penstock.receipt_log").fetchone() == (0,)


def test_waiting_streams_are_notified_and_others_not(db: Session, connect: Connect) -> None:
    stream = Stream(db, "orders")
    listener = connect()
    [(channel,)] = listener.execute("select penstock.wait_for_log(%s)", (stream.ids,)).fetchall()
    listener.execute(f'listen "{channel}"')
    publish(db, "parcels", 1)
    publish(db, "orders", 2)
    assert [note.channel for note in listener.notifies(timeout=5, stop_after=1)] == ["topic:orders"]
    db.execute("select penstock.advance_clock('10 seconds')")
    publish(db, "orders", 3)
    assert list(listener.notifies(timeout=0.05)) == []
