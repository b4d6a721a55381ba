"""A segment that is added while a transaction uses the log is not forced upon it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.engine import Draft, Engine

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect


def test_open_transaction_publishes_on_while_segments_are_added(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    engine, writer = Engine(db), Engine(connect(autocommit=False))
    db.execute("select penstock.create_queue('queue', 'topic')")
    engine.configure("segment_bytes", "1")
    # Often enough for cached plans: they never look for new segments by themselves.
    ids = [writer.publish("topic", Draft()) for _ in range(30)]
    for _ in range(6):
        ids.append(engine.publish("topic", Draft()))  # unread, so that no segment is free
        engine.maintain()
    ids.append(writer.publish("topic", Draft()))
    writer.conn.commit()
    assert sorted(row.id for row in engine.claim("queue", "token", 30, 100)) == sorted(ids)
    assert engine.maintain()["segments switched"] >= 1, "growth goes on when they have ended"
