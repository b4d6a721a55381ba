"""The engine's time, as callers read it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from tests.sql.caller import Caller


def test_clock_is_the_databases_until_a_test_moves_it(mq: Caller) -> None:
    before, engine, after = mq.query(
        "select clock_timestamp() as before, penstock.clock(), clock_timestamp() as after"
    )[0]
    assert before <= engine <= after
    advance(mq.db, seconds=3600)
    moved, now = mq.query("select penstock.clock(), clock_timestamp() as now")[0]
    assert moved - now > timedelta(minutes=59)
