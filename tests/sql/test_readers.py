"""create_reader, read_window, commit_window, list_readers, delete_reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.clock import advance
from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def topic(mq: Caller) -> None:
    mq("create_topic", "t")


def read(mq: Caller, reader: str = "r", max_rows: int = 1000) -> list[Any]:
    return [row.payload for row in mq.rows("read_window", reader, max_rows)]


def take(mq: Caller, reader: str = "r", max_rows: int = 1000) -> list[Any]:
    """Read and commit."""
    rows = mq.rows("read_window", reader, max_rows)
    if rows:
        assert mq("commit_window", reader, rows[-1].message_id) is True
    return [row.payload for row in rows]


def test_reader_sees_every_message_once_in_the_order_of_ids(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    mq.publish_many("t", [1, 2, 3])
    assert take(mq) == [1, 2, 3]
    assert take(mq) == []
    mq.publish("t", 4)
    assert take(mq) == [4]


def test_reader_gets_the_same_again_until_it_commits(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    mq.publish_many("t", [1, 2])
    assert read(mq) == [1, 2]
    mq.publish("t", 3)
    assert read(mq) == [1, 2]
    assert take(mq) == [1, 2]
    assert take(mq) == [3]


def test_part_of_a_window_can_be_committed(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    ids = mq.publish_many("t", list(range(10)))
    assert read(mq, max_rows=4) == [0, 1, 2, 3]
    assert mq("commit_window", "r", ids[1])
    assert read(mq, max_rows=4) == [2, 3, 4, 5]
    assert mq("commit_window", "r", ids[5])
    assert take(mq) == [6, 7, 8, 9]
    assert read(mq) == []


def test_commit_of_what_was_committed_is_false_and_changes_nothing(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    ids = mq.publish_many("t", [1, 2])
    read(mq)
    assert mq("commit_window", "r", ids[1]) is True
    with nothing_changes(mq.db):
        assert mq("commit_window", "r", ids[1]) is False
        assert mq("commit_window", "r", ids[0]) is False
        assert mq("commit_window", "r", None) is False


def test_commit_of_what_was_not_handed_out_is_refused(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    ids = mq.publish_many("t", [1, 2, 3, 4])
    for through in (ids[0], 2**50):
        with nothing_changes(mq.db), refused("PS015", "was not given message"):
            mq("commit_window", "r", through)
    # The window has all four, and two of them were handed out.
    assert read(mq, max_rows=2) == [1, 2]
    with nothing_changes(mq.db), refused("PS015", "was not given message"):
        mq("commit_window", "r", ids[2])
    assert read(mq, max_rows=3) == [1, 2, 3]
    assert mq("commit_window", "r", ids[2]) is True
    assert take(mq) == [4]


def test_idle_reader_writes_nothing(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    mq.publish("t", 1)
    take(mq)
    with mq.db.transaction():
        assert read(mq) == []
        assert mq.db.execute("select pg_current_xact_id_if_assigned()").fetchone() == (None,)


def test_an_advisory_lock_of_another_role_does_not_stop_a_reader(
    mq: Caller, connect: Connect
) -> None:
    reader = mq("create_reader", "r", "t")
    mq.publish("t", 1)
    other = connect(autocommit=False)
    other.execute("select pg_advisory_xact_lock(1346719316, %s)", (reader,))
    mq.db.execute("set lock_timeout = '5s'")
    assert take(mq) == [1]


def test_reader_starts_at_the_end_the_beginning_or_a_time(mq: Caller) -> None:
    mq.publish("t", "old")
    advance(mq.db, seconds=3600)
    since = mq.at(seconds=-60).isoformat()
    mq.publish("t", "new")
    mq("create_reader", "end", "t")
    mq("create_reader", "beginning", "t", "beginning")
    mq("create_reader", "since", "t", since)
    mq.publish("t", "next")
    assert take(mq, "end") == ["next"]
    assert take(mq, "beginning") == ["old", "new", "next"]
    assert take(mq, "since") == ["new", "next"]


def test_reader_sees_delayed_and_prioritised_messages_in_their_place(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    due = mq.at(seconds=600)
    mq.publish("t", 1, deliver_after=due)
    mq.publish("t", 2, priority=9)
    mq.publish("t", 3, headers={"h": 1}, key="k", correlation_id="c", tenant_id="x")
    rows = mq.rows("read_window", "r")
    assert [r.payload for r in rows] == [1, 2, 3]
    assert (rows[0].deliver_after, rows[1].priority) == (due, 9)
    last = rows[2]
    assert (last.headers, last.key, last.correlation_id, last.tenant_id) == (
        {"h": 1},
        "k",
        "c",
        "x",
    )


def test_readers_and_queues_do_not_disturb_each_other(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("create_reader", "a", "t")
    mq("create_reader", "b", "t")
    mq.publish_many("t", [1, 2])
    assert take(mq, "a") == [1, 2]
    assert mq.drain("q") == [1, 2]
    assert take(mq, "b") == [1, 2]


def test_message_that_commits_late_is_seen_once(mq: Caller, connect: Connect) -> None:
    mq("create_reader", "r", "t")
    slow = connect(autocommit=False)
    slow.execute("select penstock.publish_message('t', '\"slow\"')")
    mq.publish("t", "quick")
    assert take(mq) == ["quick"]
    slow.commit()
    assert take(mq) == ["slow"]
    assert take(mq) == []


def test_creating_the_same_reader_again_returns_it(mq: Caller) -> None:
    reader_id = mq("create_reader", "r", "t")
    mq.publish("t", 1)
    assert mq("create_reader", "r", "t") == reader_id
    assert take(mq) == [1]


def test_reader_of_another_topic_with_the_same_name_is_refused(mq: Caller) -> None:
    mq("create_topic", "other")
    mq("create_reader", "r", "t")
    with nothing_changes(mq.db), refused("PS006", "'r'"):
        mq("create_reader", "r", "other")


def test_list_readers_tells_how_far_each_is(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    mq.publish_many("t", [1, 2, 3])
    (row,) = mq.rows("list_readers")
    assert (row.name, row.topic_name, row.lag, row.committed_at) == ("r", "t", 3, None)
    take(mq, max_rows=2)
    (row,) = mq.rows("list_readers")
    assert row.lag == 1
    assert row.committed_at is not None
    take(mq)
    assert mq.rows("list_readers")[0].lag == 0


def test_deleted_reader_is_gone_and_can_be_made_anew(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    mq.publish("t", 1)
    mq("delete_reader", "r")
    assert mq.rows("list_readers") == []
    for call in ("read_window", "delete_reader"):
        with refused("PS003", "'r'"):
            mq.rows(call, "r")
    mq("create_reader", "r", "t")
    assert take(mq) == []


def test_reader_of_an_unknown_topic_is_refused(mq: Caller) -> None:
    with refused("PS001", "'nothing'"):
        mq("create_reader", "r", "nothing")


def test_large_window_is_read_in_pieces(mq: Caller) -> None:
    mq("create_reader", "r", "t")
    mq.publish_many("t", list(range(2500)))
    seen: list[int] = []
    while found := take(mq, max_rows=400):
        seen += found
    assert seen == list(range(2500))
