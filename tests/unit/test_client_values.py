"""The client's small pure parts: options, addresses, rows for COPY, foreign connections' words."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from penstock import errors
from penstock.client import calls, outgoing, reply
from penstock.client.calls import Repeat
from penstock.client.values import each, payload_list, reason, refuse
from penstock.models import Published, PublishedMany
from penstock.postgres import foreign
from penstock.postgres.session import with_defaults
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable


def test_one_value_stands_for_all_and_a_list_for_each() -> None:
    assert each(None) is None
    assert each("key") == ["key"]
    assert each({"a": 1}) == [{"a": 1}]
    assert each(timedelta(1)) == [timedelta(1)]
    assert each(("a", None)) == ["a", None]


def test_two_options_that_say_the_same_are_refused() -> None:
    refuse("a", None, "b", 1)
    refuse("a", 0, "b", None)
    with pytest.raises(errors.InvalidArgument, match="a= and b="):
        refuse("a", 0, "b", 0)


def test_a_published_message_is_its_id() -> None:
    published = Published(7, processed=True)
    assert published == published.id == 7
    assert {published: "x"}[7] == "x"
    assert repr(published) == "Published(7, processed=True)"
    assert Published(7).processed is None


def test_published_messages_are_a_sequence_of_ids() -> None:
    many = PublishedMany([3, 4], processed=False)
    assert list(many) == many.ids == [3, 4]
    assert many[0] == 3
    assert many.processed is False


def test_a_reply_goes_where_the_request_said() -> None:
    headers = reply.request_headers({"x": 1}, "replies-1")
    assert headers["x"] == 1
    answer = reply.reply_headers(headers, 7)
    assert answer == reply.reply_filter("replies-1")["headers"]
    with pytest.raises(errors.InvalidArgument, match="message 7"):
        reply.reply_headers({}, 7)


def test_a_line_of_the_stage_has_its_columns_in_order() -> None:
    item = outgoing.Outgoing({"a": 1}, headers={"h": 1}, key="k", priority=5, dedupe_key="d")
    line, plain = outgoing.lines([item, "text"])
    assert dict(zip(outgoing.Outgoing.__slots__, line, strict=True)) == {
        "payload": '{"a":1}',
        "headers": '{"h":1}',
        "key": "k",
        "priority": 5,
        "deliver_after": None,
        "expires_at": None,
        "correlation_id": None,
        "tenant_id": None,
        "dedupe_key": "d",
    }
    assert plain[:3] == ('"text"', None, None)
    assert outgoing.repeat([line]) is Repeat.ALWAYS
    assert outgoing.repeat([line, plain]) is Repeat.BEFORE_SENDING


def test_publishing_may_be_repeated_only_with_a_dedupe_key_for_every_message() -> None:
    assert calls.publish("t", 1).repeat is Repeat.BEFORE_SENDING
    assert calls.publish("t", 1, dedupe_key="k").repeat is Repeat.ALWAYS
    assert calls.publish_many("t", [1]).repeat is Repeat.BEFORE_SENDING
    assert calls.publish_many("t", [1, 2], dedupe_keys=["a", None]).repeat is Repeat.BEFORE_SENDING
    assert calls.publish_many("t", [1, 2], dedupe_keys=["a", "b"]).repeat is Repeat.ALWAYS


def test_parameters_are_numbered_for_asyncpg() -> None:
    call = calls.publish("t", 1, key="k")
    assert foreign.dollars(call.sql) == (
        "select penstock.publish_message($1, $2::text::jsonb, key => $3)"
    )


@pytest.mark.parametrize("thing", [object(), "dsn", None, 7])
def test_what_is_no_connection_is_refused(thing: object) -> None:
    with pytest.raises(errors.UnusableConnection, match="psycopg, asyncpg or SQLAlchemy"):
        foreign.recognise(thing)


def test_a_dsn_keeps_what_it_says_and_gets_the_rest() -> None:
    settings = Settings(application_name="shop", connect_timeout=timedelta(seconds=3))
    dsn = with_defaults("host=h application_name=mine", settings)
    assert "application_name=mine" in dsn
    assert "connect_timeout=3" in dsn
    assert "keepalives_idle" in dsn


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: calls.publish("t", 1, delay=3), "delay is 3: give a timedelta"),
        (lambda: calls.publish("t", 1, deliver_after=datetime(2030, 1, 1)), "a time zone"),  # noqa: DTZ001
        (lambda: calls.publish("t", 1, key=7), "key is 7: give a text"),
        (lambda: calls.publish_many("t", [1], delays=[3]), "delays is 3: give a timedelta"),
        (lambda: calls.nack("q", 1, "t", delay=3), "delay is 3: give a timedelta"),
        (lambda: calls.extend("q", 1, "t", 3), "extension is 3: give a timedelta"),
        (lambda: calls.consume_batch("q", "t", 30, 1), "claim_for is 30: give a timedelta"),
        (lambda: calls.create_queue("q", retry_base=3), "retry_base is 3: give a timedelta"),
        (lambda: calls.create_queue("q", ordering="lifo"), "choose one of 'standard', 'fifo'"),
        (lambda: calls.create_queue("q", start_at=datetime(2030, 1, 1)), "a time zone"),  # noqa: DTZ001
        (lambda: payload_list("abc"), "the payloads are a str: give a list"),
        (lambda: payload_list({"a": 1}), "the payloads are a dict: give a list"),
    ],
)
def test_a_value_of_the_wrong_kind_is_told_before_anything_is_sent(
    call: Callable[[], object], told: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=told):
        call()


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_a_failure_may_be_told_by_its_exception() -> None:
    assert reason(ValueError("no stock")) == "ValueError: no stock"
    assert reason("nul \0") == "nul \\0"
    assert reason(_Unprintable()) == "_Unprintable"
    assert reason(None) is None
    assert "ValueError: x" in calls.bury("q", 1, "t", error=ValueError("x")).parameters
