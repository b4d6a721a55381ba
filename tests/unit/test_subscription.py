"""The listener's decisions."""

from __future__ import annotations

from penstock.postgres._async.listener import Subscriptions, changes_between, rest_before_heartbeat
from penstock.postgres.session import ListenerTimes


def test_heartbeat_is_due_after_silence_and_not_before() -> None:
    times = ListenerTimes(heartbeat=5)
    assert rest_before_heartbeat(heard_at=100, now=100, times=times) == 5
    assert rest_before_heartbeat(heard_at=100, now=104, times=times) == 1
    assert rest_before_heartbeat(heard_at=100, now=105, times=times) == 0
    assert rest_before_heartbeat(heard_at=100, now=900, times=times) == 0


def test_dead_line_is_noticed_within_fifteen_seconds() -> None:
    assert ListenerTimes().heartbeat + ListenerTimes().patience < 15


def test_channels_change_in_one_statement_with_every_name_quoted() -> None:
    found = changes_between({"queue:a", 'queue:b"; drop'}, {"queue:a", "queue:c"})
    assert found.statement().as_string() == ('listen "queue:b""; drop"; unlisten "queue:c"')


def test_nothing_is_said_when_nothing_changes() -> None:
    assert not changes_between({"queue:a"}, {"queue:a"})
    assert not changes_between(set(), set())


def test_channel_lasts_until_its_last_watch_leaves() -> None:
    found: Subscriptions[str] = Subscriptions()
    found.add("a", "first")
    found.add("a", "second")
    found.add("b", "third")
    found.remove("a", "first")
    assert found.channels() == {"a", "b"}
    assert found.of("a") == ["second"]
    found.remove("a", "second")
    assert found.channels() == {"b"}
    assert list(found) == ["third"]
