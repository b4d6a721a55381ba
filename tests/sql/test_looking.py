"""What dashboards ask: bounded counts that agree with the exact ones, and activity counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.fixtures.clock import advance
from tests.sql.refusals import refused

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller

ORDERINGS = ["standard", "fifo", "fair"]


def overview(mq: Caller, queue: str = "q") -> Any:
    (row,) = [row for row in mq.rows("queue_overview") if row.queue_name == queue]
    return row


def activity(mq: Caller, since: Any, kind: str = "queue") -> Any:
    (row,) = [
        row for row in mq.query("select * from penstock.activity(%s)", since) if row.kind == kind
    ]
    return row


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_overview_counts_what_the_exact_statistics_count(mq: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering, max_delivery_attempts=1)
    mq.publish_many("t", [1, 2, 3, 4], keys=["a"] * 4)
    mq.publish_many("t", [5, 6, 7])
    mq.publish("t", 8, priority=5)
    mq.publish("t", 9, deliver_after=mq.at(seconds=60))
    for _ in range(3):
        mq.consume("q", 1)
    first = mq.query("select message_id from penstock.queue_messages where status = 'processing'")
    mq.nack("q", first[0].message_id)
    exact, found = mq.statistics("q"), overview(mq)
    assert found.waiting + found.blocked + found.scheduled == exact.pending_count
    assert found.claimed == exact.processing_count >= 1
    assert found.dead == exact.dead_count == 1
    assert found.scheduled == 1
    assert found.oldest_waiting_at is not None
    advance(mq.db, seconds=61)
    mq.consume("q", 1, token="later", vt=600)
    assert overview(mq).scheduled == 0


def test_a_late_commit_and_an_open_transaction_are_counted_when_they_are_there(
    mq: Caller, connect: Connect
) -> None:
    mq("create_queue", "q", "t")
    writer = connect(autocommit=False)
    writer.execute("select penstock.publish_message('t', '1')")
    mq.publish_many("t", [2, 3, 4])
    since = activity(mq, None, "topic").snapshot
    mq.consume("q", 2)
    assert overview(mq).waiting == 1
    writer.commit()
    assert overview(mq).waiting == 2 == mq.statistics("q").pending_count
    assert activity(mq, since, "topic").published == 1


def test_overview_counts_up_to_a_limit_and_browses_a_long_backlog_page_by_page(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish_many("t", list(range(10_050)))
    assert overview(mq).waiting == 10_001
    mq.consume("q", 100)
    assert overview(mq).waiting == 9_950
    seen, after = [], ""
    for _ in range(3):
        page = mq.rows("find_messages", "q", "waiting", after, 7)
        seen += [row.message_id for row in page]
        after = page[-1].place
    wanted = mq.query(
        "select message_id from penstock.browse_messages('q', 0, 200) "
        "where state = 'waiting' limit 21"
    )
    assert seen == [row.message_id for row in wanted]


@pytest.mark.parametrize("queue_filter", [None, {"headers": {"a": 1}}])
def test_filters_and_starts_are_heeded_by_bounded_counts(
    mq: Caller, queue_filter: dict[str, Any] | None
) -> None:
    mq("create_topic", "t")
    mq.publish_many("t", list(range(20)), headers=[Jsonb({"a": 1})] * 20)
    mq.publish_many("t", list(range(20)), headers=[Jsonb({"a": 2})] * 20)
    more = {} if queue_filter is None else {"filter": queue_filter}
    mq("create_queue", "q", "t", start_at="beginning", **more)
    assert overview(mq).waiting == mq.statistics("q").pending_count == (20 if more else 40)
    mq.consume("q", 3)
    assert overview(mq).waiting == mq.statistics("q").pending_count == (17 if more else 37)


def test_activity_tells_each_outcome_once(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=2)
    since = activity(mq, None).snapshot
    mq.publish_many("t", list(range(6)))
    ids = [row.message_id for row in mq.consume("q")]
    advance(mq.db, seconds=2)
    mq.ack("q", ids[0])
    mq.nack("q", ids[1])
    mq("bury_message", "q", ids[2], "me")
    mq("release_message", "q", ids[3], "me")
    found = activity(mq, since)
    assert (found.acked, found.failed, found.dead, found.released) == (1, 1, 1, 1)
    assert activity(mq, since, "topic").published == 6
    assert found.complete
    assert found.works == pytest.approx([2], abs=0.5)
    assert found.waits == pytest.approx([0], abs=0.5)
    again = activity(mq, found.snapshot)
    assert (again.acked, again.failed, again.dead, again.released) == (0, 0, 0, 0)
    assert activity(mq, found.snapshot, "topic").published == 0


def test_an_ack_that_commits_late_is_counted_when_it_does(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    ids = mq.publish_many("t", [1, 2])
    mq.consume("q", 1)
    mq.consume("q", 1)
    slow = connect(autocommit=False)
    slow.execute("select penstock.ack_message('q', %s, 'me')", (ids[0],))
    since = activity(mq, None).snapshot
    mq.ack("q", ids[1])
    between = activity(mq, since)
    assert between.acked == 1
    slow.commit()
    assert activity(mq, between.snapshot).acked == 1


def test_history_gives_steps_for_charts(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish_many("t", [1, 2, 3])
    ids = [row.message_id for row in mq.consume("q")]
    mq.ack("q", ids[0])
    advance(mq.db, seconds=20)
    mq.ack("q", ids[1])
    rows = mq.query("select * from penstock.queue_history('q', '10 minutes', '10 seconds')")
    assert sum(row.acked for row in rows) == 2
    assert sum(row.published for row in rows) == 3
    assert len([row for row in rows if row.acked]) == 2
    assert max(row.work_p95 or 0 for row in rows) == pytest.approx(20, abs=2)
    with refused("PS005"):
        mq.query("select * from penstock.queue_history('q', '10 days', '1 second')")
    with refused("PS005"):
        mq.query("select * from penstock.queue_history('q', '1 second', '0 seconds')")
    with refused("PS002"):
        mq.query("select * from penstock.queue_history('nobody')")


def test_consumers_are_those_who_hold_or_wait(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("create_queue", "idle", "t")
    ids = mq.publish_many("t", [1, 2, 3])
    mq.consume("q", 2, token="worker-1")
    mq("start_waiting", "idle", 30, "worker-2")
    found = {(row.queue_name, row.token): row for row in mq.rows("list_consumers")}
    assert set(found) == {("q", "worker-1"), ("idle", "worker-2")}
    assert found["q", "worker-1"].claimed == 2
    assert found["q", "worker-1"].message_ids == [ids[0]]
    assert found["idle", "worker-2"].waiting_until is not None


def test_reader_overview_agrees_with_the_exact_lag(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    mq("create_reader", "r", "t")
    writer = connect(autocommit=False)
    writer.execute("select penstock.publish_message('t', '1')")
    mq.publish_many("t", [2, 3, 4])

    def lags() -> tuple[int, int]:
        return mq.rows("reader_overview")[0].lag, mq.rows("list_readers")[0].lag

    assert lags() == (3, 3)
    read = mq.rows("read_window", "r", 2)
    mq("commit_window", "r", read[0].message_id)
    assert lags() == (2, 2)
    writer.commit()
    assert lags() == (3, 3)
    while read := mq.rows("read_window", "r", 10):
        mq("commit_window", "r", read[-1].message_id)
    assert lags() == (0, 0)


def test_segments_tell_what_holds_them(mq: Caller) -> None:
    mq("create_queue", "slow", "t")
    mq("create_reader", "lazy", "t")
    assert {row.state for row in mq.rows("segment_overview")} == {"written", "free"}
    mq("configure", "segment_bytes", "8192")
    mq.publish_many("t", ["x" * 500] * 300)
    mq.rows("maintain")

    def waiting() -> Any:
        rows = mq.rows("segment_overview")
        return next(row for row in rows if (row.kind, row.state) == ("messages", "waiting"))

    assert waiting().held_by == ["queue slow", "reader lazy"]
    assert waiting().bytes > 8192
    mq("purge_queue", "slow")
    assert waiting().held_by == ["reader lazy"]


def test_horizon_holders_names_an_open_transaction(mq: Caller, connect: Connect) -> None:
    holder = connect(autocommit=False, application_name="report")
    holder.execute("select pg_current_xact_id()")
    rows = mq.query("select * from penstock.horizon_holders('0 seconds')")
    assert [(row.kind, row.pid) for row in rows if row.application == "report"] == [
        ("transaction", holder.info.backend_pid)
    ]
    assert mq.query("select * from penstock.horizon_holders('1 hour')") == []


def test_schedules_are_known_by_what_they_left_behind(mq: Caller) -> None:
    mq("create_topic", "t")
    for minute in (0, 5, 10):
        key = f"schedule:nightly: report:2026-01-01T00:{minute:02}:00+00:00"
        mq.publish("t", dedupe_key=key, dedupe_window="2 days")
    mq.publish("t", dedupe_key="schedule:not one", dedupe_window="2 days")
    (found,) = mq.rows("list_schedules")
    assert (found.schedule_name, found.topic_name, found.fires) == ("nightly: report", "t", 3)
    assert found.usual_gap.total_seconds() == 300


@pytest.mark.parametrize("ordering", ORDERINGS)
def test_messages_are_found_by_state_and_by_what_they_carry(mq: Caller, ordering: str) -> None:
    mq("create_queue", "q", "t", ordering=ordering, max_delivery_attempts=1)
    plain = mq.publish("t", 1)
    keyed = mq.publish("t", 2, key="k", headers={"region": "eu", "n": 1}, correlation_id="c-1")
    later = mq.publish("t", 3, deliver_after=mq.at(seconds=60), key="k")

    def found(state: str, **sought: Any) -> list[int]:
        return [row.message_id for row in mq.rows("find_messages", "q", state, **sought)]

    assert found("waiting", key="k", headers={"region": "eu"}, correlation_id="c-1") == [keyed]
    assert found("waiting", headers={"region": "us"}) == []
    claimed = mq.consume("q", 1)[0].message_id
    assert claimed == plain
    assert found("claimed") == [plain]
    assert found("waiting") == [keyed]
    mq.nack("q", plain, error="boom")
    assert found("dead") == [plain]
    assert mq.rows("find_messages", "q", "dead")[0].last_error == "boom"
    assert found("dead", key="k") == []
    assert found("scheduled") == [later]
    advance(mq.db, seconds=61)
    assert found("scheduled") == []


def test_a_search_that_stopped_tells_where_to_go_on(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish_many("t", [1] * 10_100)
    wanted = mq.publish("t", 2, key="k")
    (stop,) = mq.rows("find_messages", "q", "waiting", key="k")
    assert stop.message_id is None
    (row,) = mq.rows("find_messages", "q", "waiting", stop.place, key="k")
    assert row.message_id == wanted


@pytest.mark.parametrize(
    ("state", "after", "size"),
    [
        ("lost", "", 10),
        ("dead", "x1", 10),
        ("dead", "d1; drop", 10),
        ("dead", "", 0),
        (None, "", 1),
    ],
)
def test_a_strange_search_is_refused(mq: Caller, state: str, after: str, size: int) -> None:
    mq("create_queue", "q", "t")
    with refused("PS005"):
        mq.rows("find_messages", "q", state, after, size)


def test_a_message_is_inspected_in_every_state(mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=2, retry_base_seconds=0)
    message = mq.publish("t", {"n": "x" * 100}, headers={"h": 1})

    def inspected(**options: Any) -> Any:
        return mq.rows("inspect_message", "q", message, **options)[0]

    assert inspected().state == "waiting"
    assert inspected(most_characters=5).payload == '{"n":'
    assert inspected(most_characters=5).payload_bytes > 100
    mq.consume("q", token="w")
    assert (inspected().state, inspected().token) == ("claimed", "w")
    mq.nack("q", message, token="w", error="first")
    assert (inspected().state, inspected().last_error) == ("waiting", "first")
    mq.consume("q")
    mq.nack("q", message, error="second")
    dead = inspected()
    assert (dead.state, dead.last_error) == ("dead", "second")
    assert [each["error"] for each in dead.history] == ["first", "second"]
    mq("requeue_dlq_messages", "q")
    mq.consume("q")
    mq.ack("q", message)
    done = inspected()
    assert done.state == "done"
    assert [each["outcome"] for each in done.history] == ["failed", "dead", "acked"]
    assert mq.rows("inspect_message", "q", 10**12) == []


def test_searching_and_inspecting_heed_a_queues_grants(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    message = mq.publish("t")
    consumer = connect(role="penstock_consumer")
    consumer.execute("select * from penstock.inspect_message('q', %s)", (message,))
    mq("grant_queue", "q", "penstock_admin")
    for call in ("inspect_message('q', 1)", "find_messages('q', 'waiting')"):
        with refused("PS009"):
            consumer.execute(f"select * from penstock.{call}".encode())


def test_actions_are_remembered_newest_first(mq: Caller, connect: Connect) -> None:
    first = mq("record_action", "ann", "queue.pause", "q", {"since": "now"})
    second = mq("record_action", "bob", "queue.resume", "q")
    rows = mq.rows("list_actions")
    assert [(row.id, row.actor, row.action) for row in rows] == [
        (second, "bob", "queue.resume"),
        (first, "ann", "queue.pause"),
    ]
    assert [row.id for row in mq.rows("list_actions", second)] == [first]
    with refused("PS005"):
        mq("record_action", "", "queue.pause")
    with refused("42501"):
        connect(role="penstock_monitor").execute("select penstock.record_action('a', 'b')")


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_browsing_page_by_page_shows_everything_once_in_the_order_of_ids(
    mq: Caller, ordering: str
) -> None:
    """Wherever it lies, and however much of the log was read before."""
    mq("create_queue", "q", "t", ordering=ordering)
    mq.publish_many("t", list(range(50)), keys=[str(n % 7) for n in range(50)])
    mq.drain("q", batch=20)
    delayed = mq.publish_many("t", [1, 2], deliver_after=[mq.at(seconds=60)], keys=["late"])
    ids = mq.publish_many("t", list(range(30)), keys=[str(n) for n in range(30)])
    claimed = [row.message_id for row in mq.consume("q", 7)]
    mq("nack_message", "q", claimed[0], "me", delay_seconds=60)
    seen: list[int] = []
    while page := mq.rows("browse_messages", "q", seen[-1] if seen else 0, 5):
        assert len(page) <= 5
        seen += [row.message_id for row in page]
    assert seen == delayed + ids
    states = {row.message_id: row.state for row in mq.rows("browse_messages", "q", 0, 100)}
    assert states == {each: mq.state("q", each) for each in seen}


def test_a_queue_with_a_filter_is_told_of_the_one_message_for_it(mq: Caller) -> None:
    """However many that are not lie before it."""
    for filtered in ({"headers": {"for": "me"}}, {"payload": {"n": 1}}):
        name = next(iter(filtered))
        mq("create_queue", name, "t", filter=filtered)
        assert mq("get_next_visible_time", name) is None
    mq.query(
        "select count(*) from penstock.publish_messages('t', array_fill('{}'::jsonb, array[12000]))"
    )
    for name in ("headers", "payload"):
        assert mq("get_next_visible_time", name) is None, name
    mq.publish("t", {"n": 1}, headers={"for": "me"})
    for name in ("headers", "payload"):
        assert mq("get_next_visible_time", name) is not None, name
        assert len(mq.rows("browse_messages", name)) == 1
        mq.drain(name)
        assert mq("get_next_visible_time", name) is None, name
