"""Events: everyone who listens hears them, nobody who fails hurts the others."""

from __future__ import annotations

import logging

import pytest

from penstock.observe import Event, Name, emit, subscribe

ACKED = Event(Name.MESSAGE_ACKED, queue="billing", message_id=7)


def test_every_subscriber_hears_an_event_until_it_ends() -> None:
    first: list[Event] = []
    second: list[Event] = []
    with subscribe(first.append), subscribe(second.append) as other:
        emit(ACKED)
        other.end()
        emit(Event(Name.CLAIM_LOST, queue="billing"))
    emit(ACKED)
    assert [event.name for event in first] == ["message.acked", "claim.lost"]
    assert second == [ACKED]


def test_subscribing_twice_hears_once() -> None:
    heard: list[Event] = []
    hear = heard.append
    with subscribe(hear), subscribe(hear):
        emit(ACKED)
    assert heard == [ACKED]


def test_a_failing_subscriber_is_logged_and_hurts_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Event] = []

    def fail(event: Event) -> None:
        raise RuntimeError("no luck")

    with (
        caplog.at_level(logging.ERROR, "penstock.observe"),
        subscribe(fail),
        subscribe(heard.append),
    ):
        emit(ACKED)
    assert heard == [ACKED]
    assert "a subscriber failed on message.acked" in caplog.text


def test_an_event_can_be_neither_changed_nor_given_a_payload() -> None:
    with pytest.raises(AttributeError):
        ACKED.queue = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Event(Name.MESSAGE_ACKED, payload={"card": "4111"})  # type: ignore[call-arg]


def test_names_are_nouns_and_what_befell_them() -> None:
    assert all(len(name.split(".")) == 2 for name in Name)
