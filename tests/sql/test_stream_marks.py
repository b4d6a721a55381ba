"""Stamps of offsets: what the database remembers of them, and the way back from a lost one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.sql.refusals import refused
from tests.sql.test_streams import Stream, commit, offset, open_stream, publish

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

Session = Any


@pytest.fixture(autouse=True)
def topics(db: psycopg.Connection[Any]) -> None:
    for name in ("orders", "returns"):
        db.execute("select penstock.create_topic(%s)", (name,))


def forget_from(db: Session, lost: Any) -> None:
    """What a fail-over does that loses a tail: the marks from a place on are not there."""
    db.execute("delete from penstock_data.stream_marks where lsn >= %s::pg_lsn", (lost["lsn"],))


def safe(db: Session, lost: Any, name: str | None = None) -> Any:
    return db.execute("select penstock.safe_offset(%s, %s)", (Jsonb(lost), name)).fetchone()[0]


def test_offset_bears_the_timeline_and_a_place_in_the_wal(db: Session) -> None:
    before = db.execute("select pg_current_wal_insert_lsn()").fetchone()[0]
    found = offset(db)
    assert found["timeline"] == 1
    assert db.execute(
        "select %s::pg_lsn between %s and pg_current_wal_insert_lsn()", (found["lsn"], before)
    ).fetchone() == (True,)
    # All that it stands on is on the disk when the answer is there.
    assert db.execute(
        "select pg_current_wal_flush_lsn() >= %s::pg_lsn", (found["lsn"],)
    ).fetchone() == (True,)


def test_offset_of_another_timeline_is_refused(db: Session) -> None:
    publish(db, "orders", 1)
    stream = Stream(db, "orders", start={**offset(db), "timeline": 2})
    with refused("PS015", "of timeline 2, of which this database remembers nothing"):
        stream.next()


def test_offset_behind_all_that_is_remembered_is_refused(db: Session) -> None:
    publish(db, "orders", 1)
    lost = offset(db)
    forget_from(db, lost)
    stream = Stream(db, "orders", start=lost)
    for call in (stream.next, lambda: stream.between(offset(db, beginning=True), lost)):
        with refused("PS015", "lost what the offset stands on"):
            call()


def test_group_remembers_its_own_offsets(db: Session) -> None:
    stream = Stream(db, "orders", name="copy")
    open_stream(db, "copy", stream, stream.at)
    for number in range(3):
        publish(db, "orders", number)
        stream.read()
        if number == 1:
            lost = stream.at
    db.execute("delete from penstock_data.stream_marks where lsn = %s::pg_lsn", (lost["lsn"],))
    # Another stream's marks, and later ones of its own, don't make up for it.
    offset(db)
    with refused("PS015", "lost what the offset stands on"):
        commit(db, "copy", lost)
    assert commit(db, "copy", stream.at)


def test_group_takes_an_offset_that_was_given_to_no_stream(db: Session) -> None:
    stream = Stream(db, "orders", name="copy")
    open_stream(db, "copy", stream, stream.at)
    publish(db, "orders", 1)
    stream.read()
    assert commit(db, "copy", offset(db))


def test_marks_of_a_deleted_group_prove_as_much(db: Session) -> None:
    stream = Stream(db, "orders", name="copy")
    open_stream(db, "copy", stream, stream.at)
    publish(db, "orders", 1)
    stream.read()
    db.execute("select penstock.delete_stream('copy')")
    open_stream(db, "copy", stream, stream.at)
    publish(db, "orders", 2)
    assert stream.read() == [2]


def test_way_back_goes_to_the_newest_point_that_is_there(db: Session) -> None:
    stream = Stream(db, "orders")
    for number in range(4):
        publish(db, "orders", number)
        stream.read()
        if number == 1:
            kept = stream.at
        if number == 2:
            first_lost = stream.at
    lost = stream.at
    assert safe(db, lost) == lost
    forget_from(db, first_lost)
    back = Stream(db, "orders", start=safe(db, lost))
    assert back.at["snap"] == kept["snap"]
    assert back.read() == [2, 3]


def test_way_back_is_a_point_that_the_offset_had_passed(db: Session, connect: Connect) -> None:
    """A mark with a lower place in the WAL may have seen more: its snapshot decides."""
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    kept = stream.at
    slow = connect(autocommit=False)
    slow.execute("select penstock.publish_message('orders', '2')")
    publish(db, "orders", 3)
    stream.read()
    lost = stream.at
    slow.commit()
    newer = offset(db)
    forget_from(db, lost)
    db.execute(
        "insert into penstock_data.stream_marks "
        "values (0, 1, %s::pg_lsn - 1, %s, clock_timestamp())",
        (lost["lsn"], Jsonb({name: newer[name] for name in ("snap", "next", "last")})),
    )
    assert safe(db, lost)["snap"] == kept["snap"]


def test_way_back_of_a_group_is_where_it_is_committed(db: Session) -> None:
    stream = Stream(db, "orders", name="copy")
    open_stream(db, "copy", stream, stream.at)
    publish(db, "orders", 1)
    stream.read()
    commit(db, "copy", stream.at)
    committed = stream.at
    publish(db, "orders", 2)
    stream.read()
    lost = stream.at
    db.execute("delete from penstock_data.stream_marks")
    assert safe(db, lost, "copy") == committed
    # Without a name nothing is remembered but the log.
    assert safe(db, lost)["snap"] == "3:3:"
    assert Stream(db, "orders", start=safe(db, lost)).read() == [1, 2]


def test_way_back_knows_no_other_cluster(db: Session) -> None:
    with refused("PS015", "was taken in cluster 1/2"):
        safe(db, {**offset(db), "cluster": "1/2"})


def test_way_back_begins_what_was_catching_up_anew(db: Session) -> None:
    publish(db, "returns", 10, 11, 12)
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    publish(db, "orders", 2)
    stream.read()
    both = Stream(db, "orders", "returns", start=stream.at)
    assert both.read(max_rows=1) == [10]
    forget_from(db, both.at)
    both.at = safe(db, both.at)
    found = [each for _ in range(3) for each in both.read()]
    assert sorted(found) == [2, 10, 11, 12]


@pytest.mark.parametrize(
    "bad",
    [
        {"lsn": "x", "timeline": 1},
        {"lsn": "0/1"},
        {"lsn": "0/1", "timeline": "x"},
        {"topics": 5},
        {"parked": {"orders": 5}},
        {"catch_up": {}},
        {"catch_up": {"of": 1, "from": {"snap": "3:3:"}, "id": "x"}},
    ],
)
def test_what_is_no_stamp_or_list_is_refused(db: Session, bad: Any) -> None:
    with refused("PS005"):
        Stream(db, "orders", start={**offset(db, beginning=True), **bad}).next()
