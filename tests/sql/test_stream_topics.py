"""Which topics an offset stands for: some come later, some are left, and none is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.sql.refusals import refused
from tests.sql.test_streams import Stream, commit, empty_log, lag, offset, open_stream, publish

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

Session = Any


@pytest.fixture(autouse=True)
def topics(db: psycopg.Connection[Any]) -> None:
    for name in ("orders", "returns"):
        db.execute("select penstock.create_topic(%s)", (name,))


def drain(stream: Stream, **limits: Any) -> list[Any]:
    """Every batch until there is nothing more."""
    found: list[Any] = []
    while batch := stream.read(**limits):
        found += batch
    return found


def of_readers(db: Session) -> dict[str, int]:
    rows = db.execute("select name, lag from penstock.list_readers() order by name").fetchall()
    return dict(rows)


def test_topic_that_is_added_is_read_from_its_beginning(db: Session) -> None:
    publish(db, "orders", 1, 2)
    publish(db, "returns", 10, 11, 12)
    orders = Stream(db, "orders")
    assert drain(orders) == [1, 2]
    publish(db, "orders", 3)
    publish(db, "returns", 13)
    both = Stream(db, "orders", "returns", start=orders.at)
    assert both.read() == [10, 11, 12]
    assert sorted(drain(both)) == [3, 13]
    assert both.next() == both.at


def test_limits_hold_while_a_topic_catches_up(db: Session) -> None:
    publish(db, "orders", 1)
    publish(db, "returns", *range(10, 15))
    orders = Stream(db, "orders")
    orders.read()
    both = Stream(db, "orders", "returns", start=orders.at)
    publish(db, "orders", 2)
    start = both.at
    assert both.read(max_rows=2) == [10, 11]
    middle = both.at
    # A batch that is read again holds the same messages.
    assert both.between(start, middle) == [10, 11]
    assert both.read(max_rows=2, min_rows=100) == [12, 13]
    assert both.read(max_rows=2) == [14]
    assert both.read(max_rows=2) == [2]


def test_message_of_an_added_topic_that_commits_late_comes_once(
    db: Session, connect: Connect
) -> None:
    slow = connect(autocommit=False)
    publish(slow, "returns", 10)
    publish(db, "returns", 11)
    publish(db, "orders", 1)
    orders = Stream(db, "orders")
    orders.read()
    both = Stream(db, "orders", "returns", start=orders.at)
    assert both.read() == [11]
    slow.commit()
    assert both.read() == [10]
    assert drain(both) == []


def test_topic_that_is_left_goes_on_where_it_was(db: Session) -> None:
    publish(db, "orders", 1)
    publish(db, "returns", 10)
    stream = Stream(db, "orders")
    assert drain(stream) == [1]
    stream = Stream(db, "returns", start=stream.at)
    assert drain(stream) == [10]
    publish(db, "orders", 2)
    publish(db, "returns", 11)
    assert drain(stream) == [11]
    stream = Stream(db, "orders", "returns", start=stream.at)
    assert drain(stream) == [2]
    publish(db, "orders", 3)
    assert drain(stream) == [3]


def test_window_that_is_open_is_ended_with_the_topics_that_it_has(db: Session) -> None:
    publish(db, "orders", 1, 2, 3)
    publish(db, "returns", 10)
    stream = Stream(db, "orders")
    assert stream.read(max_rows=2) == [1, 2]
    stream = Stream(db, "returns", start=stream.at)
    assert stream.read(max_rows=2) == [3]
    assert stream.read(max_rows=2) == [10]


def test_topic_that_is_made_anew_is_another_topic(db: Session) -> None:
    publish(db, "orders", 1)
    publish(db, "returns", 10)
    stream = Stream(db, "orders", "returns")
    assert sorted(drain(stream)) == [1, 10]
    db.execute("select penstock.delete_topic('returns'), penstock.create_topic('returns')")
    publish(db, "returns", 11)
    stream = Stream(db, "orders", "returns", start=stream.at)
    assert drain(stream) == [11]


def test_a_start_by_time_holds_for_added_topics(db: Session) -> None:
    publish(db, "returns", 10)
    start = db.execute("select penstock.log_offset(true, clock_timestamp())").fetchone()[0]
    publish(db, "orders", 1)
    publish(db, "returns", 11)
    orders = Stream(db, "orders", start=start)
    orders.at = orders.next()
    both = Stream(db, "orders", "returns", start=orders.at)
    end = both.next(max_rows=100)
    assert end["catch_up"]["of"] == both.ids[1]
    count = db.execute(
        "select row_count from penstock.next_offset(%s, %s, max_rows => 100)",
        (both.ids, Jsonb(both.at)),
    ).fetchone()
    assert count == (1,)


def test_group_keeps_the_log_of_a_topic_until_it_has_caught_up(db: Session) -> None:
    publish(db, "returns", *range(10, 15))
    publish(db, "orders", 1)
    db.execute("select penstock.create_queue('keeper', 'returns', start_at => 'beginning')")
    orders = Stream(db, "orders", name="copy")
    open_stream(db, "copy", orders, orders.at)
    orders.read()
    commit(db, "copy", orders.at)
    both = Stream(db, "orders", "returns", start=orders.at, name="copy")
    open_stream(db, "copy", both, both.at)
    assert of_readers(db) == {"copy": 0, "copy:returns": 5}
    db.execute("select penstock.delete_queue('keeper')")
    empty_log(db)
    assert both.read(max_rows=2) == [10, 11]
    commit(db, "copy", both.at)
    assert of_readers(db) == {"copy": 0, "copy:returns": 3}
    empty_log(db)
    assert both.read(max_rows=9) == [12, 13, 14]
    commit(db, "copy", both.at)
    assert of_readers(db) == {"copy": 0, "copy:returns": 0}


def test_reader_of_a_topic_that_is_left_keeps_its_log(db: Session) -> None:
    orders = Stream(db, "orders", name="copy")
    open_stream(db, "copy", orders, orders.at)
    publish(db, "orders", 1)
    assert orders.read() == [1]
    commit(db, "copy", orders.at)
    returns = Stream(db, "returns", start=orders.at, name="copy")
    open_stream(db, "copy", returns, returns.at)
    publish(db, "orders", 2)
    publish(db, "returns", 10)
    assert returns.read() == [10]
    commit(db, "copy", returns.at)
    empty_log(db)
    assert lag(db, "copy") == 1
    again = Stream(db, "orders", start=returns.at, name="copy")
    open_stream(db, "copy", again, again.at)
    assert again.read() == [2]
    commit(db, "copy", again.at)
    assert of_readers(db) == {"copy": 0, "copy:returns": 0}


def test_topic_that_was_left_without_a_reader_and_emptied_is_told(db: Session) -> None:
    publish(db, "orders", 1)
    stream = Stream(db, "orders")
    stream.read()
    publish(db, "orders", 2)
    publish(db, "returns", 10)
    stream = Stream(db, "returns", start=stream.at)
    assert stream.read() == [10]
    empty_log(db)
    stream = Stream(db, "orders", start=stream.at)
    with refused("PS016", "topic 'orders'"):
        stream.next()


def old(given: Any) -> Any:
    """The offset as the release before wrote it."""
    return {name: given[name] for name in given if name not in ("topics", "timeline", "lsn")}


def test_old_offset_stands_for_what_its_group_has_read(db: Session) -> None:
    publish(db, "orders", 1)
    publish(db, "returns", 10)
    orders = Stream(db, "orders", name="copy")
    open_stream(db, "copy", orders, orders.at)
    orders.read()
    commit(db, "copy", old(orders.at))
    both = Stream(db, "orders", "returns", start=old(orders.at), name="copy")
    open_stream(db, "copy", both, both.at)
    commit(db, "copy", both.at)
    publish(db, "orders", 2)
    assert drain(both) == [10, 2]


def test_old_offset_without_a_group_stands_for_what_is_read(db: Session) -> None:
    publish(db, "orders", 1)
    stream = Stream(db, "orders", "returns", start=old(offset(db)))
    publish(db, "returns", 10)
    assert drain(stream) == [10]
    assert set(stream.at) >= {"topics", "timeline", "lsn"}


def acked(db: Session, queue: str, count: int) -> None:
    rows = db.execute(
        "select message_id from penstock.consume_messages_batch(%s, 'me', 30, %s)", (queue, count)
    )
    ids = [number for (number,) in rows]
    db.execute("select count(*) from penstock.ack_messages(%s, %s, 'me')", (queue, ids))


def receipts(db: Session, start: Any, queues: list[str], **limits: Any) -> tuple[list[int], Any]:
    """The numbers of receipts in each batch until there are no more, and where they end."""
    ids = [
        row[0]
        for row in db.execute("select id from penstock.readable_queues(%s) order by 1", (queues,))
    ]
    named = "".join(f", {name} => {value}" for name, value in limits.items())
    found = []
    while True:
        end = db.execute(
            f"select end_offset from penstock.next_receipts(%s, %s{named})", (ids, Jsonb(start))
        ).fetchone()[0]
        if end == start:
            return found, end
        before, to, held = start, end.get("to", end), list(end["queues"].values())
        if catch_up := end.get("catch_up"):
            before, to, held = catch_up["from"], start, [catch_up["of"]]
        pieces = db.execute(
            "select after_xid::text, through_xid::text from penstock.split_receipts(%s, %s, %s, 2)",
            (held, Jsonb(start), Jsonb(end)),
        ).fetchall()
        found.append(
            sum(
                db.execute(
                    "select count(*) from penstock.receipt_log "
                    "where queue_id = any (%s) and xid > %s::xid8 and xid <= %s::xid8 "
                    "and not pg_visible_in_snapshot(xid, %s::pg_snapshot) "
                    "and pg_visible_in_snapshot(xid, %s::pg_snapshot)",
                    (held, low, high, before["snap"], to["snap"]),
                ).fetchone()[0]
                for low, high in pieces
            )
        )
        start = end


def test_history_of_an_added_queue_is_read_from_its_beginning(db: Session) -> None:
    for queue in ("billing", "mail"):
        db.execute("select penstock.create_queue(%s, 'orders')", (queue,))
    publish(db, "orders", *range(10))
    start = offset(db, beginning=True)
    acked(db, "billing", 3)
    for _ in range(3):
        acked(db, "mail", 2)
    assert receipts(db, start, ["billing"])[0] == [3]
    _found, at = receipts(db, start, ["billing"])
    acked(db, "billing", 1)
    acked(db, "mail", 2)
    found, at = receipts(db, at, ["billing", "mail"], max_rows=4)
    assert found == [4, 2, 3]
    # A queue that is left goes on where it was.
    acked(db, "billing", 1)
    acked(db, "mail", 1)
    found, at = receipts(db, at, ["mail"])
    assert found == [1]
    assert receipts(db, at, ["billing", "mail"])[0] == [1]
    assert set(at) >= {"queues", "timeline", "lsn"}
