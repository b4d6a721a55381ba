"""A dump restored into another cluster: PS010 until rebase(), which keeps every unread message."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.fixtures.clock import advance
from tests.fixtures.databases import Database
from tests.sql.caller import Caller
from tests.sql.refusals import nothing_changes, refused
from tests.sql.test_bad_input import QUEUE_CALLS, READER_CALLS, TOPIC_CALLS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.cluster import Server
    from tests.fixtures.databases import Connect

QUEUES = {
    "plain": {},
    "lanes": {"ordering": "fifo"},
    "turns": {"ordering": "fair"},
    "some": {"filter": {"headers": {"even": True}}},
    "idle": {},
    "idle lanes": {"ordering": "fifo"},
}
ROLES = ("publisher", "consumer", "monitor", "admin")


@dataclass(frozen=True)
class Picture:
    """What a queue holds, by message id."""

    pending: frozenset[int]
    claimed: frozenset[int]
    done: int
    dead: int

    @classmethod
    def of(cls, mq: Caller, queue: str) -> Picture:
        rows = mq.rows("browse_messages", queue, 0, 10_000)
        counts = mq.statistics(queue)
        return cls(
            frozenset(r.message_id for r in rows if r.state != "claimed"),
            frozenset(r.message_id for r in rows if r.state == "claimed"),
            counts.completed_count,
            counts.dead_count,
        )


def publish(mq: Caller, first: int, count: int, **options: Any) -> None:
    for n in range(first, first + count):
        key = "abcde"[n % 5]
        mq.publish("t", n, key=key, headers={"even": n % 2 == 0}, **options)


def fill(mq: Caller, connect: Connect) -> None:
    """Messages in every place that there is."""
    for queue, settings in QUEUES.items():
        mq("create_queue", queue, "t", **settings)
    mq("create_reader", "r", "t")
    slow = connect(autocommit=False)
    publish(mq, 0, 10)
    publish(Caller(slow), 100, 3)
    publish(mq, 10, 20)
    publish(mq, 200, 3, priority=5)
    publish(mq, 300, 3, deliver_after=mq.at(seconds=600))
    for queue in ("plain", "lanes", "turns", "some"):
        ids = [r.message_id for r in mq.consume(queue, 6, vt=3000)]
        mq.column("ack_messages", queue, ids[:2], "me")
        mq.nack(queue, ids[2], delay_seconds=500)
        mq("bury_message", queue, ids[3], "me")
        if queue == "lanes":
            mq.consume(queue, 1, vt=3000)
            mq.ack(queue, ids[4])
    read = mq.rows("read_window", "r", 5)
    mq("commit_window", "r", read[-1].message_id)
    # These were there before, and are seen only now: their ids lie below what was read.
    slow.commit()
    slow.close()
    publish(mq, 400, 5)


def restore(source: Database, target: Server, folder: Path) -> Database:
    """Dump and restore into another cluster, as its administrator does."""
    binaries = source.server.binaries
    file = folder / "dump"
    target.administer(*(f"create role penstock_{role}" for role in ROLES), "create database copy")
    copy = Database(target, "copy")
    for command in (
        [binaries.program("pg_dump"), "-Fc", "-f", str(file), "-d", source.dsn],
        [binaries.program("pg_restore"), "--exit-on-error", "-d", copy.dsn, str(file)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return copy


@pytest.fixture
def before(mq: Caller, connect: Connect) -> dict[str, Picture]:
    fill(mq, connect)
    return {queue: Picture.of(mq, queue) for queue in QUEUES}


@pytest.fixture
def there(
    before: dict[str, Picture], database: Database, second_server: Server, tmp_path: Path
) -> Iterator[Caller]:
    """A session on the restored copy."""
    copy = restore(database, second_server, tmp_path)
    with psycopg.connect(copy.dsn, autocommit=True) as conn:
        yield Caller(conn)


def test_restored_database_refuses_every_call_until_it_is_rebased(there: Caller) -> None:
    calls: list[tuple[Any, ...]] = [
        *((call, "plain", *rest) for call, rest in QUEUE_CALLS.items()),
        *((call, "t", *rest) for call, rest in TOPIC_CALLS.items()),
        *((call, "r", *rest) for call, rest in READER_CALLS.items()),
        ("create_topic", "new"),
        ("create_queue", "new"),
        ("create_reader", "new", "t"),
        ("maintain",),
        ("purge_all_messages",),
        ("list_dlq_messages", "plain"),
        ("purge_dlq", "plain"),
    ]
    with nothing_changes(there.db):
        for call in calls:
            with refused("PS010", "another cluster"):
                there.rows(*call)
    (check,) = [row for row in there.rows("health") if row.name == "cluster"]
    assert not check.ok
    assert "rebase" in check.advice
    assert there("rebase") > 0
    assert [row.ok for row in there.rows("health") if row.name == "cluster"] == [True]
    assert there("rebase") == 0
    there.rows("maintain")


def test_rebase_keeps_every_message_in_its_place(
    there: Caller, before: dict[str, Picture], mq: Caller
) -> None:
    there("rebase")
    assert {queue: Picture.of(there, queue) for queue in QUEUES} == before

    # Claims go on where they were, and every pending message is delivered, once and in order.
    for queue, picture in before.items():
        acked = there.column("ack_messages", queue, list(picture.claimed), "me")
        assert set(acked) == picture.claimed
    advance(there.db, seconds=601)
    for queue, picture in before.items():
        rows = []
        while found := there.consume(queue, 7):
            rows += found
            there.column("ack_messages", queue, [r.message_id for r in found], "me")
        ids = [r.message_id for r in rows]
        assert sorted(ids) == sorted(picture.pending), queue
        if queue == "idle lanes":
            for key in "abcde":
                mine = [r.message_id for r in rows if r.key == key]
                assert mine == sorted(mine)
    publish(there, 900, 2)
    for queue in QUEUES:
        expected = {900} if queue == "some" else {900, 901}
        assert {r.payload for r in there.consume(queue, 100)} == expected
    there("configure", "segment_bytes", "1")
    there.rows("maintain")
    assert sum(picture.dead for picture in before.values()) == len(there.rows("list_dlq_messages"))


def test_rebase_keeps_what_a_reader_has_still_to_read(there: Caller, mq: Caller) -> None:
    there("rebase")
    expected: list[int] = []
    seen: list[int] = []
    for caller, found in ((mq, expected), (there, seen)):
        while rows := caller.rows("read_window", "r", 10):
            found += [r.payload for r in rows]
            assert caller("commit_window", "r", rows[-1].message_id)
    assert set(seen) >= set(expected)
    assert len(seen) == len(set(seen))
    assert there.rows("list_readers")[0].lag == 0


def test_copied_database_raises_no_alarm(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        mq = Caller(conn)
        mq("create_queue", "q", "t")
        mq.publish_many("t", [1, 2, 3])
        claimed = mq.consume("q", 1)[0].message_id
    name = f"{database.name}_copy"
    database.server.administer(f"create database {name} template {database.name}")
    try:
        with psycopg.connect(database.server.dsn(name), autocommit=True) as conn:
            copy = Caller(conn)
            assert copy.ack("q", claimed)
            assert copy.drain("q") == [2, 3]
            copy.publish("t", 4)
            assert copy.payloads("q") == [4]
            assert copy("rebase") == 0
    finally:
        database.server.administer(f"drop database {name} (force)")


@pytest.mark.parametrize("command", ["vacuum full", "vacuum freeze", "analyze"])
def test_housekeeping_of_the_database_raises_no_alarm(mq: Caller, command: str) -> None:
    mq("create_queue", "q", "t")
    mq.publish("t", 1)
    for table in ("incarnation", "settings"):
        mq.db.execute(f"{command} penstock_data.{table}".encode())
    assert mq.payloads("q") == [1]
    assert [row.ok for row in mq.rows("health") if row.name == "cluster"] == [True]
