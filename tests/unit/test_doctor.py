"""What doctor concludes without a server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from penstock.cli.doctor import CLOCK_TOLERANCE, build, clock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
A_MOMENT = timedelta(milliseconds=1)


def test_clocks_that_agree_within_the_time_of_the_question_are_well() -> None:
    assert clock(NOON, NOON - timedelta(minutes=1), NOON + timedelta(minutes=1)).ok
    assert clock(NOON, NOON + CLOCK_TOLERANCE, NOON + CLOCK_TOLERANCE).ok


def test_a_clock_that_is_ahead_or_behind_is_told_with_what_to_do() -> None:
    for off in (CLOCK_TOLERANCE + A_MOMENT, -CLOCK_TOLERANCE - A_MOMENT):
        found = clock(NOON + off, NOON, NOON)
        assert not found.ok
        assert found.advice is not None
        assert str(abs(off)) in found.detail


def test_an_engine_of_this_package_or_of_psql_is_well() -> None:
    assert build("ours", "ours").ok
    assert build(None, "ours").ok
    assert "not compared" in build(None, "ours").detail


def test_an_engine_of_other_scripts_is_told_with_what_to_do() -> None:
    found = build("theirs", "ours")
    assert not found.ok
    assert "other scripts" in found.detail
    assert "penstock init" in (found.advice or "")
