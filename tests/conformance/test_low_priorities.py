"""Priorities below zero come after plain messages, wherever those are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from tests.conformance.engine import Draft, Engine
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    import psycopg


@pytest.mark.parametrize("wanted", ["null", """'{"payload": {"colour": "red"}}'"""])
@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_plain_message_in_the_log_goes_ahead_of_a_scheduled_one_of_low_priority(
    db: psycopg.Connection[Any], ordering: str, wanted: str
) -> None:
    engine = Engine(db)
    db.execute(
        f"select penstock.create_queue('q', ordering => '{ordering}', filter => {wanted})".encode()
    )
    engine.publish_many("q", [Draft(key=key, priority=-3) for key in "abc"])
    assert len(engine.claim("q", "token", 30, 1)) == 1
    plain = engine.publish("q", Draft(key="d"))
    assert [row.id for row in engine.claim("q", "token", 30, 1)] == [plain]


@pytest.mark.parametrize("ordering", ["standard", "fifo", "fair"])
def test_plain_message_in_the_log_goes_ahead_where_a_lapsed_one_leaves_a_place(
    db: psycopg.Connection[Any], ordering: str
) -> None:
    engine = Engine(db)
    wanted = Jsonb({"payload": {"colour": "red"}})
    db.execute(
        "select penstock.create_queue('q', ordering => %s, filter => %s)", (ordering, wanted)
    )
    first, *_, low = engine.publish_many(
        "q", [*(Draft(key=key) for key in "abc"), Draft(key="z", priority=-3)]
    )
    engine.publish("q", Draft(key="d", expiry=10))
    # It has read the log by then, as far as it goes.
    assert [row.id for row in engine.claim("q", "token", 90, 1)] == [first]
    last = engine.publish("q", Draft(key="e"))
    advance(db, seconds=11)
    claimed = [row.id for row in engine.claim("q", "token", 90, 3)]
    assert claimed[-1] == last
    assert low not in claimed
