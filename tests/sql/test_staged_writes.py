"""Staged writes: parts, the ledger, and what becomes of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

Session = Any
WRITE = "query 1"


@pytest.fixture(autouse=True)
def topics(db: psycopg.Connection[Any]) -> None:
    for name in ("orders", "parcels"):
        db.execute("select penstock.create_topic(%s)", (name,))


def stage(db: Session, *payloads: Any, batch: int = 0, alone: bool = False, **columns: Any) -> int:
    """Copy rows into a part of the stage, as a task does."""
    [(table, part, written)] = db.execute(
        "select * from penstock.open_part(%s, %s, %s)", (WRITE, batch, alone)
    ).fetchall()
    assert not written
    names = ["part", "payload", *columns]
    with db.cursor().copy(f"copy {table} ({', '.join(names)}) from stdin") as copy:
        for payload in payloads:
            copy.write_row((part, payload, *columns.values()))
    return int(part)


def commit(
    db: Session, parts: dict[int, int], batch: int = 0, topic: str | None = "orders"
) -> bool:
    [(done,)] = db.execute(
        "select penstock.commit_write(%s, %s, %s, %s, %s)",
        (WRITE, batch, list(parts), list(parts.values()), topic),
    ).fetchall()
    return bool(done)


def log(db: Session) -> list[Any]:
    return db.execute("select topic, payload from penstock.log order by id").fetchall()


def staged(db: Session) -> int:
    [(table,)] = db.execute("select 'penstock_stage.w_' || id from penstock_data.stages").fetchall()
    return int(db.execute(f"select count(*) from {table}").fetchone()[0])


def test_batch_is_published_once_however_often_it_is_committed(db: Session) -> None:
    parts = {stage(db, "1", "2"): 2, stage(db, "3"): 1}
    assert log(db) == []
    assert commit(db, parts)
    assert not commit(db, parts)
    assert sorted(log(db)) == [("orders", 1), ("orders", 2), ("orders", 3)]
    assert staged(db) == 0
    assert db.execute("select penstock.is_written(%s, 0)", (WRITE,)).fetchone() == (True,)
    assert db.execute("select penstock.is_written(%s, 1)", (WRITE,)).fetchone() == (False,)


def test_earlier_batch_is_not_written_again(db: Session) -> None:
    commit(db, {stage(db, "1", batch=5): 1}, batch=5)
    assert db.execute("select is_written from penstock.open_part(%s, 4)", (WRITE,)).fetchone() == (
        True,
    )
    assert not commit(db, {}, batch=4)


def test_leavings_of_a_failed_task_are_dropped(db: Session) -> None:
    stage(db, "9")
    assert commit(db, {stage(db, "1"): 1})
    assert log(db) == [("orders", 1)]
    assert staged(db) == 0


def test_rows_that_are_missing_stop_the_commit(db: Session) -> None:
    part = stage(db, "1", "2")
    with nothing_changes(db), refused("PS017", "3 rows were staged, 2 are there"):
        commit(db, {part: 3})


def test_rows_name_their_topics(db: Session) -> None:
    parts = {stage(db, "1", topic="parcels"): 1, stage(db, "2"): 1}
    commit(db, parts)
    assert sorted(log(db)) == [("orders", 2), ("parcels", 1)]
    part = stage(db, "3", batch=1)
    with refused("PS005", "names no topic"):
        commit(db, {part: 1}, batch=1, topic=None)
    gone = stage(db, "3", topic="gone", batch=1)
    with refused("PS001", "gone"):
        commit(db, {gone: 1}, batch=1)


@pytest.mark.parametrize(
    ("columns", "code", "words"),
    [
        ({"priority": 2000}, "PS005", "priority must be between"),
        ({"headers": "[]"}, "PS005", "headers must be a JSON object"),
        ({"key": "k" * 2000}, "PS007", "key has 2000 bytes"),
        ({"expires_at": "2001-01-01"}, "PS005", "expires_at"),
    ],
)
def test_bad_row_stops_the_batch(
    db: Session, columns: dict[str, Any], code: str, words: str
) -> None:
    parts = {stage(db, "1"): 1, stage(db, "2", **columns): 1}
    with nothing_changes(db), refused(code, words):
        commit(db, parts)


def test_null_payload_stops_the_batch(db: Session) -> None:
    part = stage(db, None)
    with refused("PS005", "payload must not be null"):
        commit(db, {part: 1})


def test_delays_and_priorities_reach_the_queue(db: Session) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    parts = {stage(db, "1"): 1, stage(db, "2", priority=5): 1}
    parts[stage(db, "3", deliver_after="tomorrow")] = 1
    commit(db, parts)
    claimed = db.execute(
        "select payload from penstock.consume_messages_batch('billing', 'me', 30, 10)"
    ).fetchall()
    assert claimed == [(2,), (1,)]


def test_consumers_are_woken(db: Session, connect: Connect) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    listener = connect()
    listener.execute('listen "queue:billing"')
    listener.execute("select penstock.start_waiting('billing')")
    commit(db, {stage(db, "1"): 1})
    assert [n.channel for n in listener.notifies(timeout=5, stop_after=1)] == ["queue:billing"]


def test_part_is_published_at_once_on_request(db: Session) -> None:
    with db.transaction():
        part = stage(db, "1", "2")
        db.execute("select penstock.publish_part(%s, 0, %s, 2, 'orders')", (WRITE, part))
    assert log(db) == [("orders", 1), ("orders", 2)]


def test_abort_says_whether_it_came_too_late(db: Session) -> None:
    abort = "select penstock.abort_write(%s, 0)"
    part = stage(db, "1")
    assert db.execute(abort, (WRITE,)).fetchone() == (False,)
    assert staged(db) == 0
    with refused("PS017"):
        commit(db, {part: 1})
    commit(db, {stage(db, "1"): 1})
    assert db.execute(abort, (WRITE,)).fetchone() == (True,)
    assert db.execute("select penstock.abort_write('unheard of', 0)").fetchone() == (False,)


def test_batch_of_its_own_takes_its_stage_with_it(db: Session) -> None:
    part = stage(db, "1", batch=3, alone=True)
    db.execute(
        "select penstock.commit_write(%s, 3, array[%s::bigint], array[1], 'orders', alone => true, "
        "keep => false)",
        (WRITE, part),
    )
    assert db.execute("select count(*) from penstock_data.stages").fetchone() == (0,)
    assert log(db) == [("orders", 1)]
    db.execute("select penstock.advance_clock('2 days')")
    db.execute("select * from penstock.maintain()")
    assert db.execute("select count(*) from penstock_data.writes").fetchone() == (0,)


def test_large_stage_is_truncated_unless_somebody_copies_into_it(
    db: Session, connect: Connect
) -> None:
    size = "select pg_relation_size('penstock_stage.w_' || id) from penstock_data.stages"
    wide = '"' + "x" * 1500 + '"'
    other = connect(autocommit=False)
    part = stage(db, *[wide] * 1000)
    stage(other, "1")
    commit(db, {part: 1000})
    assert db.execute(size).fetchone()[0] > 2**20
    other.rollback()
    commit(db, {stage(db, "1", batch=1): 1}, batch=1)
    assert db.execute(size).fetchone()[0] == 0


def test_forgotten_stages_are_swept(db: Session) -> None:
    stage(db, "1")
    db.execute("select * from penstock.maintain()")
    assert staged(db) == 1
    db.execute("select penstock.advance_clock('2 days')")
    db.execute("select * from penstock.maintain()")
    assert db.execute("select count(*) from penstock_data.stages").fetchone() == (0,)
    assert db.execute(
        "select count(*) from pg_class where relnamespace = 'penstock_stage'::regnamespace"
    ).fetchone() == (0,)


def test_publisher_needs_no_rights_beyond_its_role(db: Session, connect: Connect) -> None:
    publisher = connect(role="penstock_publisher")
    part = stage(publisher, "1")
    assert commit(publisher, {part: 1})
    assert log(db) == [("orders", 1)]
    table = db.execute("select 'penstock_stage.w_' || id from penstock_data.stages").fetchone()[0]
    for statement in (f"select * from {table}", f"delete from {table}", f"drop table {table}"):
        with refused("42501"):
            publisher.execute(statement)
    db.execute("create role somebody")
    db.execute("select penstock.grant_topic('orders', 'somebody')")
    part = stage(publisher, "2", batch=1)
    with refused("PS009", "may not publish to topic 'orders'"):
        commit(publisher, {part: 1}, batch=1)
    with refused("PS009"):
        publisher.execute("select penstock.check_publishing('orders')")
    db.execute("drop role somebody")


def test_stage_belongs_to_who_opened_it(db: Session, connect: Connect) -> None:
    db.execute("create role first_writer in role penstock_publisher")
    db.execute("create role second_writer in role penstock_publisher")
    try:
        stage(connect(role="first_writer"), "1")
        with refused("PS009", "belongs to role first_writer"):
            connect(role="second_writer").execute(
                "select * from penstock.open_part(%s, 0)", (WRITE,)
            )
        db.execute("grant first_writer to second_writer")
        connect(role="second_writer").execute("select * from penstock.open_part(%s, 0)", (WRITE,))
    finally:
        db.execute("drop owned by first_writer")
        db.execute("drop role first_writer, second_writer")


def test_contents_of_a_queue_are_told_once(db: Session) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    db.execute(
        "select count(*) from penstock.publish_messages('orders', array['1','2','3','4']::jsonb[])"
    )
    db.execute("select penstock.publish_message('orders', '5', now() + interval '1 hour')")
    claimed = db.execute(
        "select message_id from penstock.consume_messages_batch('billing', 'me', 30, 2)"
    ).fetchall()
    db.execute("select penstock.ack_message('billing', %s, 'me')", claimed[0])
    found = db.execute(
        "select message_id, state from penstock.queue_contents('billing')"
    ).fetchall()
    assert sorted(found) == [
        (1, "done"),
        (2, "claimed"),
        (3, "waiting"),
        (4, "waiting"),
        (5, "delayed"),
    ]
    part = db.execute("select message_id from penstock.queue_contents('billing', 1, 3)").fetchall()
    assert sorted(part) == [(2,), (3,)]
