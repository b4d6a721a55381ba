"""Priorities of a fair queue take turns each for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.engine import Draft, Engine

if TYPE_CHECKING:
    import psycopg


@pytest.mark.parametrize("urgent", [1, 20])
def test_urgent_messages_of_a_busy_key_do_not_put_a_quiet_key_behind_its_backlog(
    db: psycopg.Connection[Any], urgent: int
) -> None:
    engine = Engine(db)
    db.execute("select penstock.create_queue('queue', 'topic', ordering => 'fair')")
    engine.publish_many("topic", [Draft(key="busy")] * 20)
    engine.claim("queue", "token", 30, 1)
    engine.publish_many("topic", [Draft(key="busy", priority=5)] * urgent)
    assert {row.priority for row in engine.claim("queue", "token", 30, urgent)} == {5}
    engine.publish("topic", Draft(key="quiet"))
    assert "quiet" in [row.key for row in engine.claim("queue", "token", 30, 3)]
