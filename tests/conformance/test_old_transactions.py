"""A transaction may be older than the messages that it finishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.engine import Draft, Engine

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect


def test_message_acked_by_a_transaction_that_began_before_it_was_published_is_done(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    engine, old = Engine(db), Engine(connect(autocommit=False))
    db.execute("select penstock.create_queue('queue', 'topic')")
    old.publish("topic", Draft())
    message_id = engine.publish("topic", Draft())
    engine.claim("queue", "token", 30, 10)
    assert old.ack("queue", message_id, "token")
    old.conn.commit()
    states = {seen.id: seen.state for seen in engine.look("queue", [message_id])}
    assert states[message_id] == "done"
