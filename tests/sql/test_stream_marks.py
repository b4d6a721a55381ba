"""Stamps of offsets: what the database remembers of them, and the way back from a lost one."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from penstock import schema
from tests.plans.costs import assert_no_growth, buffers
from tests.sql.refusals import refused
from tests.sql.test_streams import Stream, commit, offset, open_stream, publish

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect, Database

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


def boot(db: Session) -> int:
    """When the server was started, in microseconds."""
    query = "select (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint"
    found: int = db.execute(query).fetchone()[0]
    return found


def as_of_run(db: Session, run: int, given: Any = None) -> Any:
    """The marks so far were made by another run of the server; so was the offset, if given."""
    query = "update penstock_data.stream_marks set boot = %s where boot = %s"
    db.execute(query, (run, boot(db)))
    return given and {**given, "timeline": f"1/{run}" if run else 1}


def marks_of(db: Session, run: int) -> int:
    query = "select count(*) from penstock_data.stream_marks where boot = %s"
    found: int = db.execute(query, (run,)).fetchone()[0]
    return found


def test_offset_bears_the_timeline_the_run_and_a_place_in_the_wal(db: Session) -> None:
    before = db.execute("select pg_current_wal_insert_lsn()").fetchone()[0]
    found = offset(db)
    assert found["timeline"] == f"1/{boot(db)}"
    assert db.execute(
        "select %s::pg_lsn between %s and pg_current_wal_insert_lsn()", (found["lsn"], before)
    ).fetchone() == (True,)
    # All that it stands on is on the disk when the answer is there.
    assert db.execute(
        "select pg_current_wal_flush_lsn() >= %s::pg_lsn", (found["lsn"],)
    ).fetchone() == (True,)


def test_offset_of_another_timeline_is_refused(db: Session) -> None:
    publish(db, "orders", 1)
    for timeline in (2, f"2/{boot(db)}"):
        stream = Stream(db, "orders", start={**offset(db), "timeline": timeline})
        with refused("PS015", "of timeline 2", "of which this database remembers nothing"):
            stream.next()


@pytest.mark.parametrize("name", [None, "copy"])
def test_offset_of_another_run_of_the_server_is_refused(db: Session, name: str | None) -> None:
    """A copy of this server wrote the same timeline.  Marks of this one prove nothing of it."""
    stream = Stream(db, "orders", name=name)
    if name is not None:
        open_stream(db, name, stream, stream.at)
    publish(db, "orders", 1)
    stream.read()
    stream.at = {**stream.at, "timeline": "1/1600000000000000"}
    offset(db)
    with refused("PS015", "by the server started at 2020-09-13", "remembers nothing:"):
        stream.next()
    if name is not None:
        with refused("PS015", "lost what the offset stands on"):
            commit(db, name, stream.at)


def test_offset_of_an_earlier_run_is_taken_as_far_as_it_is_remembered(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    stream.at = as_of_run(db, 17, stream.at)
    lost = {**offset(db), "timeline": "1/17"}
    # Only marks of the same run count, however many others there are.
    publish(db, "orders", 2)
    assert stream.read() == [2]
    with refused("PS015", "lost what the offset stands on"):
        Stream(db, "orders", start=lost).next()


def test_offset_of_an_earlier_release_is_judged_by_the_marks_of_its_time(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    stream.at = as_of_run(db, 0, stream.at)
    assert stream.at["timeline"] == 1
    lost = {**offset(db), "timeline": 1}
    publish(db, "orders", 2)
    assert stream.read() == [2]
    with refused("PS015", "lost what the offset stands on"):
        Stream(db, "orders", start=lost).next()


def test_marks_of_an_earlier_installation_are_brought_up(db: Session, database: Database) -> None:
    indexes = (
        "select array_agg(pg_get_indexdef(indexrelid) order by 1) from pg_index "
        "where indrelid = 'penstock_data.stream_marks'::regclass"
    )
    fresh = db.execute(indexes).fetchone()
    given = {**offset(db), "timeline": 1}
    db.execute("drop table penstock_data.migrations")
    db.execute("alter table penstock_data.stream_marks drop column boot")
    db.execute(
        "create index stream_marks_newest on penstock_data.stream_marks (timeline, stream_id, lsn)"
    )
    with psycopg.connect(database.dsn) as conn:
        schema.install(conn)
    assert db.execute(indexes).fetchone() == fresh
    offset(db)
    publish(db, "orders", 1)
    assert Stream(db, "orders", start=given).read() == [1]


def test_end_of_a_window_that_a_limit_has_cut_bears_its_stamp(db: Session) -> None:
    publish(db, "orders", *range(5))
    stream = Stream(db, "orders")
    found = []
    for _ in range(3):
        found += stream.read(max_rows=2)
        assert stream.at["timeline"] == f"1/{boot(db)}"
    assert found == [0, 1, 2, 3, 4]
    assert "to" not in stream.at
    forget_from(db, stream.at)
    with refused("PS015", "lost what the offset stands on"):
        stream.next()


def test_end_of_a_window_of_receipts_bears_its_stamp(db: Session) -> None:
    db.execute("select penstock.create_queue('q', 'orders')")
    for number in range(3):
        publish(db, "orders", number)
        db.execute("select penstock.consume_message('q', 'me', 60)")
        db.execute("select penstock.ack_message('q', %s, 'me')", (number + 1,))
    at = offset(db, beginning=True)
    query = "select end_offset from penstock.next_receipts(array[1], %s, max_rows => 1)"
    ends: list[Any] = []
    while not ends or ends[-1] != at:
        at = ends[-1] if ends else at
        ends.append(db.execute(query, (Jsonb(at),)).fetchone()[0])
    assert len(ends) > 3
    assert all(end["timeline"] == f"1/{boot(db)}" for end in ends)


def test_offset_behind_all_that_is_remembered_is_refused(db: Session) -> None:
    publish(db, "orders", 1)
    lost = offset(db)
    forget_from(db, lost)
    stream = Stream(db, "orders", start=lost)
    for call in (stream.next, lambda: stream.between(offset(db, beginning=True), lost)):
        with refused("PS015", "lost what the offset stands on"):
            call()


def test_group_remembers_its_own_offsets_of_an_earlier_release(db: Session) -> None:
    """Their stamps say nothing of the run."""
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
    as_of_run(db, 0)
    with refused("PS015", "lost what the offset stands on"):
        commit(db, "copy", {**lost, "timeline": 1})
    assert commit(db, "copy", {**stream.at, "timeline": 1})


def test_the_newest_mark_of_a_run_is_kept(db: Session) -> None:
    given = []
    for run in range(1, 11):
        for _ in range(30):
            last = offset(db)
        given.append(as_of_run(db, run, last))
    assert [marks_of(db, run) for run in range(1, 11)] == [1] * 5 + [20] * 5
    offset(db)
    assert [marks_of(db, run) for run in range(1, 11)] == [1] * 6 + [20] * 4
    publish(db, "orders", 1)
    assert all(Stream(db, "orders", start=each).read() == [1] for each in given)


def test_marks_of_very_many_runs_are_not_kept(db: Session) -> None:
    first = offset(db)
    db.execute(
        "insert into penstock_data.stream_marks (stream_id, timeline, boot, lsn, point, made_at) "
        "select 0, m.timeline, n, m.lsn, m.point, m.made_at "
        "from penstock_data.stream_marks m, generate_series(1, 2000) n"
    )
    as_of_run(db, 3000)
    offset(db)
    assert db.execute("select count(*) from penstock_data.stream_marks").fetchone() == (1000,)
    with refused("PS015", "remembers nothing:"):
        Stream(db, "orders", start={**first, "timeline": "1/100"}).next()


def test_marks_of_deleted_groups_are_few(db: Session) -> None:
    for number in range(3):
        stream = Stream(db, "orders", name="copy")
        open_stream(db, "copy", stream, stream.at)
        for each in range(20):
            publish(db, "orders", 100 * number + each)
            stream.read()
        db.execute("select penstock.delete_stream('copy')")
    assert marks_of(db, boot(db)) == 20


def test_marks_cost_no_more_while_a_snapshot_is_held(db: Session, connect: Connect) -> None:
    stream = Stream(db, "orders", name="copy")
    open_stream(db, "copy", stream, stream.at)
    for _ in range(25):
        db.execute("select penstock.log_offset(stream_name => 'copy')")
        db.execute("select penstock.log_offset()")

    def cost() -> float:
        costs = []
        for _ in range(9):
            publish(db, "orders", 1)
            ask = "select * from penstock.next_offset(%s, %s, stream_name => %s)"
            costs.append(buffers(db, ask, stream.ids, Jsonb(stream.at), stream.name))
            stream.read()
        return median(costs)

    holder = connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select count(*) from pg_class")
    cost()
    few = cost()
    for _ in range(1500):
        db.execute("select penstock.log_offset(stream_name => 'copy')")
        db.execute("select penstock.log_offset()")
    assert_no_growth(few, cost())
    stream.name = None
    assert_no_growth(few, cost())


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
        "insert into penstock_data.stream_marks (stream_id, timeline, boot, lsn, point, made_at) "
        "values (0, 1, %s, %s::pg_lsn - 1, %s, clock_timestamp())",
        (boot(db), lost["lsn"], Jsonb({name: newer[name] for name in ("snap", "next", "last")})),
    )
    assert safe(db, lost)["snap"] == kept["snap"]


def test_way_back_goes_to_no_mark_that_the_offset_s_run_may_not_have(db: Session) -> None:
    """The server that gave the offset left before this one made its marks, and came back never."""
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    publish(db, "orders", 2)
    lost = {**offset(db), "timeline": "2/17"}
    assert safe(db, lost)["snap"] == "3:3:"
    assert Stream(db, "orders", start=safe(db, lost)).read() == [1, 2]


def test_way_back_goes_to_marks_of_earlier_runs_that_both_have(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    shared = as_of_run(db, 16, stream.at)
    publish(db, "orders", 2)
    # A mark of the offset's run, that has no place in a stream of messages.
    at = offset(db)
    db.execute(
        "update penstock_data.stream_marks set point = point - 'last' where lsn = %s", (at["lsn"],)
    )
    as_of_run(db, 17)
    publish(db, "orders", 3)
    offset(db)
    lost = {**offset(db), "timeline": "1/17"}
    assert safe(db, lost)["snap"] == shared["snap"]
    assert safe(db, lost)["timeline"] == "1/16"
    assert Stream(db, "orders", start=safe(db, lost)).read() == [2, 3]


def test_way_back_from_an_offset_of_an_earlier_release(db: Session) -> None:
    stream = Stream(db, "orders")
    publish(db, "orders", 1)
    stream.read()
    kept = as_of_run(db, 0, stream.at)
    publish(db, "orders", 2)
    # A mark of this release is not of its time.
    offset(db)
    lost = {**offset(db), "timeline": 1}
    assert {**safe(db, lost), "topics": kept["topics"]} == kept
    assert Stream(db, "orders", start=kept).read() == [2]
    assert safe(db, {**lost, "timeline": 2})["snap"] == "3:3:"


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
        {"lsn": "0/1", "timeline": "1/x"},
        {"lsn": "0/1", "timeline": "1/2/3"},
        {"lsn": "0/1", "timeline": "1/99999999999999999999"},
        {"parked": {"orders": {"snap": "3:3:", "lsn": "x", "timeline": 1}}},
        {"topics": 5},
        {"parked": {"orders": 5}},
        {"catch_up": {}},
        {"catch_up": {"of": 1, "from": {"snap": "3:3:"}, "id": "x"}},
    ],
)
def test_what_is_no_stamp_or_list_is_refused(db: Session, bad: Any) -> None:
    with refused("PS005"):
        Stream(db, "orders", start={**offset(db, beginning=True), **bad}).next()


def test_reader_commits_after_a_rebase_what_it_was_given_since(db: Session) -> None:
    db.execute("select penstock.create_reader('export', 'orders', 'beginning')")
    publish(db, "orders", *range(5))
    read = "select array_agg(message_id) from penstock.read_window('export', 5)"
    [given] = db.execute(read).fetchone()
    db.execute("select penstock.commit_window('export', %s)", (given[1],))
    # As after a restore into another cluster.
    db.execute("update penstock_data.settings set incarnation_xid = '3'")
    db.execute("select penstock.rebase()")
    with refused("PS015", "was not given message"):
        db.execute("select penstock.commit_window('export', %s)", (given[4],))
    assert db.execute(read).fetchone() == (given[2:],)
    assert db.execute("select penstock.commit_window('export', %s)", (given[4],)).fetchone() == (
        True,
    )
