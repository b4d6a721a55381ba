"""Messages for one queue alone."""

from __future__ import annotations

import psycopg
import pytest

DELIVER = """
    select penstock.deliver_messages(%s, array['{"n": 1}', '{"n": 2}']::jsonb[],
        keys => array['a', 'b'], write_id => %s, batch_id => %s)"""


def two_queues(db: psycopg.Connection) -> None:
    db.execute("select penstock.create_topic('orders')")
    for queue in ("billing", "shipping"):
        db.execute("select penstock.create_queue(%s, 'orders')", (queue,))


def claimed(db: psycopg.Connection, queue: str) -> list[tuple[str, int]]:
    rows = db.execute(
        "select key, (payload ->> 'n')::int from penstock.consume_messages_batch(%s, 't', 30, 10)",
        (queue,),
    )
    return sorted(rows.fetchall())


def test_delivered_messages_reach_their_queue_and_no_other(db: psycopg.Connection) -> None:
    two_queues(db)
    assert db.execute(DELIVER, ("billing", None, None)).fetchone() == (2,)
    assert claimed(db, "billing") == [("a", 1), ("b", 2)]
    assert claimed(db, "shipping") == []


def test_a_batch_is_delivered_once(db: psycopg.Connection) -> None:
    two_queues(db)
    counts = [db.execute(DELIVER, ("billing", "replay", batch)).fetchone() for batch in (0, 0, 1)]
    assert counts == [(2,), (0,), (2,)]
    assert claimed(db, "billing") == [("a", 1), ("a", 1), ("b", 2), ("b", 2)]


def test_a_bad_message_delivers_nothing(db: psycopg.Connection) -> None:
    two_queues(db)
    with pytest.raises(psycopg.Error, match="write_id and batch_id go together"):
        db.execute(DELIVER, ("billing", "replay", None))
    with pytest.raises(psycopg.Error, match="queue 'nowhere' does not exist"):
        db.execute(DELIVER, ("nowhere", None, None))
    with pytest.raises(psycopg.Error, match="keys has 3 elements"):
        db.execute(
            "select penstock.deliver_messages('billing', array['1', '2']::jsonb[], "
            "keys => array['a', 'b', 'c'])"
        )
    assert claimed(db, "billing") == []
