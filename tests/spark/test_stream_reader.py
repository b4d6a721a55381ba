"""The stream reader, driven as Spark drives it: what it answers, and to what questions."""

from __future__ import annotations

import json
import pickle
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from penstock.errors import LogTruncated, OtherCluster
from penstock.spark.source import stream_reader
from tests.fixtures.patience import eventually_sync
from tests.sql.test_streams import empty_log, lag, publish

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from penstock.spark.source.stream_reader import PenstockStreamReader
    from tests.fixtures.databases import Connect, Database

    Stream = Callable[..., PenstockStreamReader]

EARLIEST = {"subscribe": "orders", "startingOffsets": "earliest"}
ALL = ReadAllAvailable()


@pytest.fixture(autouse=True)
def topics(db: psycopg.Connection[Any]) -> None:
    for name in ("orders", "parcels"):
        db.execute("select penstock.create_topic(%s)", (name,))


def over_the_wire(value: Any) -> Any:
    """Offsets go through JSON between Spark and the reader, and through its checkpoint."""
    return json.loads(json.dumps(value))


def read(reader: PenstockStreamReader, start: Any, end: Any) -> list[Any]:
    """What the tasks of a batch yield."""
    rows = []
    for task in reader.partitions(start, end):
        for batch in reader.read(pickle.loads(pickle.dumps(task))):
            rows += batch.to_pylist()
    return [json.loads(row["value"]) for row in rows]


def step(reader: PenstockStreamReader, start: Any, limit: Any = ALL) -> tuple[list[Any], Any]:
    end = over_the_wire(reader.latestOffset(start, limit))
    return read(reader, start, end), end


def test_batches_follow_each_other(stream: Stream, db: Any) -> None:
    reader = stream(**EARLIEST, maxOffsetsPerTrigger=3)
    publish(db, "orders", *range(8))
    at = over_the_wire(reader.initialOffset())
    seen = []
    for _ in range(3):
        rows, at = step(reader, at, reader.getDefaultReadLimit())
        seen.append(rows)
    assert seen == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_the_first_answer_is_kept_with_the_group(stream: Stream, db: Any) -> None:
    publish(db, "orders", 1)
    asked = {"subscribe": "orders", "group": "copy"}
    first = stream(**asked).initialOffset()
    publish(db, "orders", 2)
    # Spark asks twice, and a process that takes over asks again: rows must not fall between.
    again = stream(**asked)
    assert again.initialOffset() == first
    rows, _end = step(again, first)
    assert rows == [2]


def test_progress_is_noted_when_spark_asks_for_more(stream: Stream, db: Any) -> None:
    reader = stream(**EARLIEST, group="copy", maxOffsetsPerTrigger=4)
    publish(db, "orders", *range(6))
    start = reader.initialOffset()
    assert lag(db, "copy") == 6
    _rows, middle = step(reader, start)
    assert lag(db, "copy") == 6
    _rows, end = step(reader, middle)
    assert lag(db, "copy") == 2
    # The last question of an AvailableNow run: no commit follows it.
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(end, ALL) == end
    assert lag(db, "copy") == 0


def test_an_old_commit_moves_the_group(stream: Stream, db: Any) -> None:
    reader = stream(**EARLIEST, group="copy")
    publish(db, "orders", 1)
    _rows, end = step(reader, reader.initialOffset())
    reader.commit(end)
    assert lag(db, "copy") == 0


def test_idle_stream_waits_and_answers_with_its_start(
    stream: Stream, db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = stream(**EARLIEST)
    publish(db, "orders", 1)
    _rows, at = step(reader, reader.initialOffset())
    publish(db, "parcels", 2)
    looks = []
    look = reader._log.next
    monkeypatch.setattr(reader._log, "next", lambda *a, **k: looks.append(1) or look(*a, **k))
    assert reader.latestOffset(at, ALL) == at
    # One look, one after the registration, one after the sleep: Spark gets no busy loop.
    assert len(looks) == 3


def test_publisher_wakes_an_idle_stream(
    stream: Stream, db: Any, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So long that only a notification can end it in time.
    monkeypatch.setattr(stream_reader, "_LONGEST_SECONDS", 3600)
    reader = stream(**EARLIEST)
    start = reader.initialOffset()
    found: list[Any] = []
    waiting = threading.Thread(
        target=lambda: found.append(reader.latestOffset(start, ALL)), daemon=True
    )
    waiting.start()
    eventually_sync(
        lambda: db.execute("select exists (select from penstock_data.waiting)").fetchone()[0]
    )
    publish(connect(), "orders", 1)
    waiting.join(60)
    assert read(reader, start, found[0]) == [1]


def test_available_now_stops_at_what_was_there(stream: Stream, db: Any) -> None:
    publish(db, "orders", 1, 2)
    reader = stream(**EARLIEST, maxOffsetsPerTrigger=1, minOffsetsPerTrigger=100)
    reader.prepareForTriggerAvailableNow()
    publish(db, "orders", 3)
    at = reader.initialOffset()
    rows, at = step(reader, at)
    assert rows == [1]
    rows, at = step(reader, at)
    assert rows == [2]
    assert reader.latestOffset(at, ALL) == at


def test_limits_of_spark_and_of_the_options(stream: Stream, db: Any) -> None:
    publish(db, "orders", *range(5))
    reader = stream(**EARLIEST)
    start = reader.initialOffset()
    assert step(reader, start, ReadMaxRows(2))[0] == [0, 1]
    assert step(reader, start, ReadMinRows(9))[0] == []
    waiting = stream(**EARLIEST, minOffsetsPerTrigger=9, maxTriggerDelay="0s")
    assert step(waiting, start)[0] == [0, 1, 2, 3, 4]


def test_partitions_answer_the_same_and_are_bounded(stream: Stream, db: Any) -> None:
    publish(db, "orders", *range(100))
    reader = stream(**EARLIEST, maxRecordsPerPartition=30)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    first = list(reader.partitions(start, end))
    publish(db, "orders", 1)
    assert list(reader.partitions(start, end)) == first
    assert list(stream(**EARLIEST, maxRecordsPerPartition=30).partitions(start, end)) == first
    sizes = [sum(batch.num_rows for batch in reader.read(task)) for task in first]
    assert sum(sizes) == 100
    assert max(sizes) <= 30


def test_a_batch_that_is_read_again_is_the_same(stream: Stream, db: Any, connect: Connect) -> None:
    slow = connect(autocommit=False)
    publish(slow, "orders", 1)
    publish(db, "orders", 2)
    reader = stream(**EARLIEST)
    start = reader.initialOffset()
    rows, end = step(reader, start)
    slow.commit()
    publish(db, "orders", 3)
    assert rows == [2] == read(stream(**EARLIEST), start, end)
    assert step(reader, end)[0] == [1, 3]


def test_a_task_gives_messages_in_the_order_of_their_ids(
    stream: Stream, db: Any, connect: Connect
) -> None:
    early = connect(autocommit=False)
    publish(early, "orders", 1)
    publish(db, "parcels", 2)
    publish(early, "orders", 3)
    first = stream(subscribe="orders,parcels", startingOffsets="earliest")
    _rows, at = step(first, first.initialOffset())
    publish(db, "orders", 4)
    early.commit()
    publish(db, "parcels", 5)
    assert step(first, at)[0] == [1, 3, 4, 5]


def test_topics_that_come_later_match_a_pattern(stream: Stream, db: Any) -> None:
    reader = stream(subscribePattern="ord.*", startingOffsets="earliest", group="copy")
    publish(db, "orders", 1)
    rows, at = step(reader, reader.initialOffset())
    db.execute("select penstock.create_topic('ordinary')")
    publish(db, "ordinary", 2)
    publish(db, "parcels", 3)
    assert (rows, step(reader, at)[0]) == ([1], [2])


def drain(reader: PenstockStreamReader, at: Any) -> tuple[list[Any], Any]:
    """All batches until there is nothing more, as a run of AvailableNow reads them."""
    reader.prepareForTriggerAvailableNow()
    found: list[Any] = []
    while (step_to := over_the_wire(reader.latestOffset(at, ALL))) != at:
        found += read(reader, at, step_to)
        at = step_to
    return found, at


def test_topic_added_at_a_restart_is_read_from_its_beginning(stream: Stream, db: Any) -> None:
    publish(db, "orders", 1, 2)
    publish(db, "parcels", 10, 11, 12)
    first = stream(**EARLIEST, group="copy")
    rows, at = drain(first, over_the_wire(first.initialOffset()))
    assert rows == [1, 2]
    publish(db, "parcels", 13)
    publish(db, "orders", 3)
    both = stream(subscribe="orders,parcels", startingOffsets="earliest", group="copy")
    rows, at = drain(both, at)
    assert rows == [10, 11, 12, 13, 3]
    assert (lag(db, "copy"), lag(db, "copy:parcels")) == (0, 0)
    # Without the first one again: it stays where it was, and its log is kept.
    publish(db, "orders", 4)
    publish(db, "parcels", 14)
    parcels = stream(subscribe="parcels", startingOffsets="earliest", group="copy")
    rows, at = drain(parcels, at)
    assert rows == [14]
    empty_log(db)
    assert lag(db, "copy") == 1
    again = stream(subscribe="orders,parcels", startingOffsets="earliest", group="copy")
    assert drain(again, at)[0] == [4]


def test_batch_is_done_again_with_the_topics_that_it_had(stream: Stream, db: Any) -> None:
    publish(db, "orders", 1)
    publish(db, "parcels", 10)
    first = stream(**EARLIEST)
    start = over_the_wire(first.initialOffset())
    end = over_the_wire(first.latestOffset(start, ALL))
    both = stream(subscribe="orders,parcels", startingOffsets="earliest")
    assert read(both, start, end) == [1]
    assert read(stream(subscribe="parcels", startingOffsets="earliest"), start, end) == [1]
    assert drain(both, end)[0] == [10]


def test_batch_is_done_again_without_topics_that_were_deleted(
    stream: Stream, db: Any, caplog: pytest.LogCaptureFixture
) -> None:
    db.execute("select penstock.create_topic('ordinary')")
    publish(db, "orders", 1)
    publish(db, "ordinary", 10)
    asked = {"subscribePattern": "ord.*", "startingOffsets": "earliest", "group": "copy"}
    first = stream(**asked)
    start = over_the_wire(first.initialOffset())
    end = over_the_wire(first.latestOffset(start, ALL))
    db.execute("select penstock.delete_topic('ordinary')")
    again = stream(**asked)
    assert read(again, start, end) == [1]
    assert "without topics that were deleted: ordinary" in caplog.text
    publish(db, "orders", 2)
    assert step(again, end)[0] == [2]


def test_first_batch_of_the_release_before_holds_the_topics_of_its_group(
    stream: Stream, db: Any
) -> None:
    publish(db, "orders", 1)
    publish(db, "parcels", 10)
    first = stream(**EARLIEST, group="copy")
    start = over_the_wire(first.initialOffset())
    end = over_the_wire(first.latestOffset(start, ALL))
    new = ("topics", "lsn", "timeline")
    start, end = ({k: v for k, v in each.items() if k not in new} for each in (start, end))
    db.execute("delete from penstock_data.stream_positions")
    db.execute("update penstock_data.streams set start_offset = %s", (json.dumps(start),))
    publish(db, "orders", 2)
    both = {"subscribe": "orders,parcels", "startingOffsets": "earliest", "group": "copy"}
    # Spark asks where the stream began before it does the first batch again, and may crash.
    for _time in range(2):
        again = stream(**both)
        assert over_the_wire(again.initialOffset()) == start
        assert read(again, start, end) == [1]
    assert drain(again, end)[0] == [10, 2]


def test_topic_that_matches_a_pattern_later_gets_a_reader(stream: Stream, db: Any) -> None:
    reader = stream(subscribePattern="ord.*", startingOffsets="earliest", group="copy")
    publish(db, "orders", 1)
    _rows, at = step(reader, reader.initialOffset())
    db.execute("select penstock.create_topic('ordinary')")
    publish(db, "ordinary", 2)
    reader.latestOffset(at, ALL)
    empty_log(db)
    assert step(reader, at)[0] == [2]


def forget(db: Any, end: Any) -> None:
    """What a fail-over does that loses the tail: the marks behind a place are gone."""
    db.execute("delete from penstock_data.stream_marks where lsn >= %s::pg_lsn", (end["lsn"],))


@pytest.mark.parametrize("group", [{}, {"group": "copy"}], ids=["alone", "group"])
def test_lost_offset_fails_the_stream_or_sends_it_back(
    stream: Stream, db: Any, group: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    asked = {**EARLIEST, **group}
    publish(db, "orders", 1)
    reader = stream(**asked)
    start = over_the_wire(reader.initialOffset())
    _rows, first = step(reader, start)
    publish(db, "orders", 2)
    _rows, lost = step(reader, first)
    publish(db, "orders", 3)
    forget(db, lost)
    with pytest.raises(OtherCluster, match="lost what the offset stands on"):
        stream(**asked).latestOffset(lost, ALL)
    with pytest.raises(OtherCluster, match="lost what the offset stands on"):
        stream(**asked).partitions(first, lost)
    back = stream(**asked, onLostOffset="rewind")
    # The batch that Spark does again ends at the point that was not lost.
    assert read(back, first, lost) == []
    rows, end = step(back, lost)
    assert rows == [2, 3]
    # It tells once what comes again.
    assert len(caplog.messages) == 1
    assert f"{lost['snap']} may come twice, none is lost" in caplog.text
    # As Spark's checkpoint has it after that.
    publish(db, "orders", 4)
    assert step(stream(**asked), end)[0] == [4]


def test_start_at_an_id_a_time_and_an_offset(stream: Stream, db: Any) -> None:
    publish(db, "orders", 1, 2)
    by_id = stream(subscribe="orders", startingOffsets='{"orders": {"0": 2}}')
    assert step(by_id, by_id.initialOffset())[0] == [2]
    first = stream(**EARLIEST)
    offset = first.latestOffset(first.initialOffset(), ALL)
    db.execute("select pg_sleep(0.002)")
    moment = db.execute("select clock_timestamp()").fetchone()[0]
    publish(db, "orders", 3)
    by_time = stream(subscribe="orders", startingTimestamp=moment.isoformat())
    assert step(by_time, by_time.initialOffset())[0] == [3]
    by_offset = stream(subscribe="orders", startingOffsets=json.dumps(offset))
    assert step(by_offset, by_offset.initialOffset())[0] == [3]


def test_tenant_and_key_are_chosen_in_the_database(stream: Stream, db: Any) -> None:
    for tenant, key, payload in (("a", "x", 1), ("a", "y", 2), ("b", "x", 3)):
        db.execute(
            "select penstock.publish_message('orders', %s::jsonb, tenant_id => %s, key => %s)",
            (str(payload), tenant, key),
        )
    reader = stream(**EARLIEST, tenant="a", key="x'; drop")
    assert step(reader, reader.initialOffset())[0] == []
    reader = stream(**EARLIEST, tenant="a", key="x")
    assert step(reader, reader.initialOffset())[0] == [1]


def test_messages_that_are_gone_fail_the_stream_or_not(stream: Stream, db: Any) -> None:
    careful, careless = stream(**EARLIEST), stream(**EARLIEST, failOnDataLoss="false")
    publish(db, "orders", 1)
    start = careful.initialOffset()
    end = careful.latestOffset(start, ALL)
    empty_log(db)
    with pytest.raises(LogTruncated):
        careful.latestOffset(start, ALL)
    # It may happen between planning and reading as well.
    with pytest.raises(LogTruncated):
        read(careful, start, end)
    assert read(careless, start, end) == []
    publish(db, "orders", 2)
    assert step(careless, start)[0] == [2]


def test_group_keeps_what_the_stream_has_not_read(stream: Stream, db: Any) -> None:
    reader = stream(**EARLIEST, group="copy")
    start = reader.initialOffset()
    publish(db, "orders", 1)
    empty_log(db)
    rows, end = step(reader, start)
    assert rows == [1]
    reader.commit(end)
    empty_log(db)
    assert db.execute("select count(*) from penstock.log").fetchone() == (0,)


def test_offset_of_another_cluster_is_refused(stream: Stream, db: Any) -> None:
    reader = stream(**EARLIEST)
    start = {**reader.initialOffset(), "cluster": "1/2"}
    with pytest.raises(OtherCluster, match="taken in cluster 1/2"):
        reader.latestOffset(start, ALL)


def test_lost_connection_is_opened_again(stream: Stream, db: Any) -> None:
    reader = stream(**EARLIEST, group="copy")
    start = reader.initialOffset()
    publish(db, "orders", 1)
    ended = db.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where application_name = 'penstock spark' and datname = current_database()"
    ).fetchone()
    assert ended == (1,)
    assert step(reader, start)[0] == [1]


def test_reader_travels_without_its_connection(stream: Stream, db: Any) -> None:
    reader = stream(**EARLIEST)
    start = reader.initialOffset()
    publish(db, "orders", 1)
    copy = pickle.loads(pickle.dumps(reader))
    assert step(copy, start)[0] == [1]
    copy.stop()


def test_receipts_are_streamed_too(stream: Stream, db: Any) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    publish(db, "orders", *range(3))
    reader = stream(entity="receipts", queue="billing", startingOffsets="earliest", group="history")
    start = reader.initialOffset()
    db.execute("select * from penstock.consume_messages_batch('billing', 'me', 30, 2)")
    db.execute("select penstock.ack_messages('billing', array[1, 2], 'me')")
    end = over_the_wire(reader.latestOffset(start, ALL))
    rows = [
        row
        for task in reader.partitions(start, end)
        for b in reader.read(task)
        for row in b.to_pylist()
    ]
    assert [(row["message_id"], row["outcome"], row["attempt"]) for row in rows] == [
        (1, "acked", 1),
        (2, "acked", 1),
    ]
    assert reader.latestOffset(end, ALL) == end


def test_history_of_a_queue_added_at_a_restart_is_read_too(stream: Stream, db: Any) -> None:
    def counted(reader: PenstockStreamReader, at: Any) -> tuple[list[tuple[str, int]], Any]:
        reader.prepareForTriggerAvailableNow()
        found: list[tuple[str, int]] = []
        while (end := over_the_wire(reader.latestOffset(at, ALL))) != at:
            tasks = reader.partitions(at, end)
            batches = [batch for task in tasks for batch in reader.read(task)]
            rows = [row for batch in batches for row in batch.to_pylist()]
            found += [(row["queue"], row["message_id"]) for row in rows]
            at = end
        return sorted(found), at

    for queue in ("billing", "mail"):
        db.execute("select penstock.create_queue(%s, 'orders')", (queue,))
    publish(db, "orders", 1, 2)
    for queue in ("billing", "mail"):
        db.execute("select * from penstock.consume_messages_batch(%s, 'me', 30, 2)", (queue,))
        db.execute("select penstock.ack_message(%s, 1, 'me')", (queue,))
    asked = {"entity": "receipts", "startingOffsets": "earliest", "group": "history"}
    first = stream(**asked, queue="billing")
    found, at = counted(first, over_the_wire(first.initialOffset()))
    assert found == [("billing", 1)]
    for queue in ("billing", "mail"):
        db.execute("select penstock.ack_message(%s, 2, 'me')", (queue,))
    found, at = counted(stream(**asked, queue="billing,mail"), at)
    assert found == [("billing", 2), ("mail", 1), ("mail", 2)]
    assert counted(stream(**asked), at)[0] == []


def test_publishers_out_of_order_lose_and_double_nothing(
    stream: Stream, db: Any, database: Database
) -> None:
    """Slow, rolled-back and quick publishers at once, while the stream reads."""
    import psycopg

    done: list[int] = []
    stop = threading.Event()

    def publisher(number: int) -> None:
        with psycopg.connect(database.dsn) as conn:
            for turn in range(40):
                value = number * 1000 + turn
                conn.execute("select penstock.publish_message('orders', %s::jsonb)", (str(value),))
                if number == 0:
                    conn.execute("select pg_sleep(0.01)")
                if turn % 5 == 4:
                    conn.rollback()
                elif turn % 3 == 0 or number > 1:
                    conn.execute(
                        "select penstock.publish_message('orders', %s::jsonb)", (str(value + 500),)
                    )
                    conn.commit()
                    done.extend([value, value + 500])
                else:
                    conn.commit()
                    done.append(value)

    reader = stream(**EARLIEST, maxOffsetsPerTrigger=7, group="copy")
    at = reader.initialOffset()
    seen: list[int] = []
    threads = [threading.Thread(target=publisher, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while not stop.is_set():
        alive = any(thread.is_alive() for thread in threads)
        rows, at = step(reader, at)
        seen += rows
        if not rows and not alive:
            stop.set()
    assert sorted(seen) == sorted(done)
