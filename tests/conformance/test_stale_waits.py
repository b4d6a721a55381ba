"""A wait that is over wakes nobody, even while others wait on the same topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.conformance.engine import Draft, Engine
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect


def test_consumer_whose_wait_is_over_is_not_woken_with_the_others(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    ear = connect()
    for queue in ("early", "late"):
        db.execute("select penstock.create_queue(%s, 'topic')", (queue,))
        ear.execute(f'listen "queue:{queue}"'.encode())
    db.execute("select penstock.start_waiting('early', 5)")
    advance(db, 6)
    db.execute("select penstock.start_waiting('late', 5)")
    published = Engine(db).publish("topic", Draft())
    woken = [(heard.channel, heard.payload) for heard in ear.notifies(timeout=1, stop_after=1)]
    woken += [(heard.channel, heard.payload) for heard in ear.notifies(timeout=0.2)]
    assert woken == [("queue:late", str(published))]
