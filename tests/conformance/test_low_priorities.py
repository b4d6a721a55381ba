"""Priorities below zero come after plain messages, wherever those are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.engine import Draft, Engine

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
