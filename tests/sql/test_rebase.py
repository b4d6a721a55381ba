"""A dump restored into another cluster: PS010 until rebase(), which keeps every unread message."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from penstock import schema
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
    for table in ("incarnation", "origin", "settings"):
        mq.db.execute(f"{command} penstock_data.{table}".encode())
    assert mq.payloads("q") == [1]
    assert [row.ok for row in mq.rows("health") if row.name == "cluster"] == [True]


FUTURE = "9000000000"
# A transaction id of the future, in each place where one is stored.
AHEAD = {
    "window": "positions set window_to = '3:{future}:'",
    "flagged window": "positions set flagged_from = '3:{future}:'",
    "flagged window being read": "positions set flagged_to = '3:{future}:'",
    "receipts of lanes": "positions set receipts_from = '3:{future}:'",
    "reader": "reader_positions set window_to = '3:{future}:'",
    "stream": """streams set start_offset = jsonb_set(start_offset, '{{snap}}', '"3:{future}:"')""",
    "message": "messages set xid = '{future}'",
    "message id": "messages set id = {future}",
    "flag": "flags set xid = '{future}'",
    "receipt": "receipts set xid = '{future}'",
    "message given back": "scheduled set xid = '{future}'",
    "emptied log": "emptied set xid = '{future}'",
}


def store_everything(mq: Caller) -> None:
    """At least one row in every table that keeps transaction ids."""
    topic = mq("create_topic", "t")
    mq("create_queue", "q", "t")
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq("create_reader", "r", "t")
    mq("open_stream", "s", [topic], entity="receipts")
    mq.publish_many("t", [1, 2, 3], priorities=[1])
    first, second = mq.consume("q", 2)
    mq.ack("q", first.message_id)
    mq.nack("q", second.message_id)
    mq.db.execute("insert into penstock_data.emptied values (%s, '3', clock_timestamp())", (topic,))


@pytest.mark.parametrize("place", AHEAD)
def test_a_transaction_id_of_the_future_is_noticed_wherever_it_is_stored(
    mq: Caller, connect: Connect, place: str
) -> None:
    store_everything(mq)
    changed = mq.db.execute(f"update penstock_data.{AHEAD[place].format(future=FUTURE)}".encode())
    assert changed.rowcount > 0
    for call in (lambda: Caller(connect()).publish("t"), lambda: mq.rows("maintain")):
        with refused("PS010", "not given yet"):
            call()
    (check,) = [row for row in mq.rows("health") if row.name == "cluster"]
    assert (check.ok, "rebase" in check.advice) == (False, True)


@pytest.mark.parametrize("table", ["incarnation", "origin"])
def test_a_sign_that_is_missing_counts_as_foreign(mq: Caller, connect: Connect, table: str) -> None:
    mq("create_queue", "q", "t")
    mq.db.execute(f"delete from penstock_data.{table}".encode())
    with refused("PS010", "another cluster"):
        Caller(connect()).publish("t")
    mq("rebase")
    assert Caller(connect()).publish("t")


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_own_writes_are_not_of_the_future(mq: Caller, connect: Connect, isolation: str) -> None:
    mq("create_queue", "q", "t", ordering="fifo")
    older = connect(autocommit=False)
    older.execute("select pg_current_xact_id()")
    db = connect(autocommit=False, isolation=isolation)
    mine = Caller(db)
    mine.publish("t", 1, priority=2)
    mq.publish("t", 2)
    mine.consume("q")
    db.execute("reset penstock.at_home")
    mine.publish("t", 3)
    assert [row.ok for row in mine.rows("health") if row.name == "cluster"] == [True]
    db.commit()


def test_a_session_that_only_reads_looks_as_well(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    mq.publish("t")
    reading = connect(default_transaction_read_only="on")
    assert Caller(reading).statistics("q").pending_count == 1
    mq.db.execute(f"update penstock_data.messages set xid = '{FUTURE}'".encode())
    with refused("PS010"):
        Caller(connect(default_transaction_read_only="on")).statistics("q")


def take_abroad(mq: Caller) -> None:
    mq.db.execute("delete from penstock_data.origin")


def test_rebase_puts_every_sequence_above_what_was_drawn(mq: Caller, connect: Connect) -> None:
    """As after logical replication, which leaves all of them where they began."""
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq("create_reader", "r", "t")
    mq("record_action", "me", "look", "q")
    publish(mq, 0, 20)
    mq("bury_message", "q", mq.consume("q", 1)[0].message_id, "me")
    mq.drain("q")
    mq.consume("lanes", 5)
    # Of the newest message nothing is left but its receipt.
    mq("create_queue", "gone", "gone")
    last = mq.publish("gone")
    mq.drain("gone")
    mq.db.execute("delete from penstock_data.messages where topic_id = "
                  "(select id from penstock_data.topics where name = 'gone')")  # fmt: skip
    # The newest topic and queue are deleted; their messages and receipts lie in the log still.
    mq("create_queue", "deleted", "deleted")
    mq.publish_many("deleted", ["of a deleted topic"] * 2)
    mq("ack_message", "deleted", mq.consume("deleted", 1)[0].message_id, "me")
    mq("delete_queue", "deleted")
    mq("delete_topic", "deleted")
    last += 2
    sequences = [
        name
        for (name,) in mq.db.execute(
            "select c.oid::regclass::text from pg_class c where c.relkind = 'S' "
            "and c.relnamespace in ('penstock_data'::regnamespace, 'pgqs_data'::regnamespace)"
        )
    ]
    assert len(sequences) >= 9
    for name in sequences:
        mq.db.execute(f"select setval('{name}', 1, false)".encode())
    take_abroad(mq)
    mq("rebase")
    there = Caller(connect())
    assert there.publish("t") > last
    there("create_queue", "new", "new", start_at="2000-01-01")
    assert (there.drain("new"), there.statistics("new").completed_count) == ([], 0)
    there("create_reader", "new", "t")
    there("record_action", "me", "look", "q")
    mq("bury_message", "q", mq.consume("q", 1)[0].message_id, "me")
    assert len(there.rows("list_dlq_messages")) == 2
    assert len(there.rows("list_actions")) == 2
    advance(there.db, seconds=3600)
    assert len(there.drain("lanes")) == 21


def test_rebase_makes_the_tables_that_the_old_server_had(mq: Caller, connect: Connect) -> None:
    """As after logical replication, which neither makes nor drops tables."""
    mq("create_queue", "q", "t")
    mq.publish("t")
    for kind in ("messages", "receipts"):
        mq.db.execute(f"insert into penstock_data.segments values ('{kind}', 4, null)".encode())
        mq.db.execute(f"create table penstock_data.{kind}_5 partition of penstock_data.{kind} "
                      "for values in (5)".encode())  # fmt: skip
    lost = mq.rows("open_part", "lost", 1)[0].stage
    kept = mq.rows("open_part", "kept", 1)[0].stage
    mq.db.execute(f"drop table {lost}".encode())
    mq.db.execute("create unlogged table penstock_stage.w_99 (part bigint)")
    take_abroad(mq)
    mq("rebase")
    found = mq.query("select kind, number from penstock_data.segments")
    assert {tuple(row) for row in found} == {
        (kind, number) for kind in ("messages", "receipts") for number in range(1, 6)
    }
    assert mq.value("select to_regclass('penstock_data.receipts_4')") is not None
    stages = mq.query("select oid::regclass::text from pg_class "
                      "where relnamespace = 'penstock_stage'::regnamespace")  # fmt: skip
    assert [name for (name,) in stages] == [kept]
    there = Caller(connect())
    assert there.rows("open_part", "lost", 1)[0].stage not in {lost, kept}
    there("configure", "segment_bytes", "1")
    for number in range(12):
        there.publish("t", number)
        there.rows("maintain")
    assert len(there.drain("q")) == 13


def test_ids_that_were_not_drawn_here_are_noticed(mq: Caller, connect: Connect) -> None:
    """As when rows came by logical replication to a physical copy, whose marks are true."""
    mq("create_queue", "some", "t", filter={"headers": {"even": True}})
    publish(mq, 0, 20)
    mq.drain("some")
    mq.db.execute("select setval('penstock_data.message_id', 3)")
    with refused("PS010", "not given yet"):
        Caller(connect()).publish("t")
    mq("rebase")
    publish(mq, 20, 10)
    assert mq.drain("some") == list(range(20, 30, 2))


def test_an_owner_who_is_no_superuser_can_rebase(empty_database: Database) -> None:
    server = empty_database.server
    server.administer(
        "create role rebase_owner login createrole",
        f"grant create on database {empty_database.name} to rebase_owner",
    )
    try:
        dsn = make_conninfo(empty_database.dsn, user="rebase_owner")
        with psycopg.connect(dsn) as conn:
            schema.install(conn)
        with psycopg.connect(dsn, autocommit=True) as conn:
            mq = Caller(conn)
            mq("create_queue", "q", "t")
            mq.publish("t", 1)
            mq.rows("open_part", "lost", 1)
            take_abroad(mq)
            assert mq("rebase") == 1
            assert mq.drain("q") == [1]
    finally:
        with psycopg.connect(empty_database.dsn, autocommit=True) as conn:
            conn.execute("drop owned by rebase_owner cascade")
        server.administer("drop role rebase_owner")


def test_the_look_at_all_signs_leaves_no_locks(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    db = connect(autocommit=False)
    Caller(db).publish("t")
    held = Caller(db).query(
        "select l.relation::regclass::text from pg_locks l "
        "where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.relation > 16383"
    )
    assert not {name for (name,) in held} & {
        "penstock_data.messages_2",
        "penstock_data.receipts_1",
        "penstock_data.positions",
    }
