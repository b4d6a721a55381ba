"""A bare message, nothing but a payload, is published by a statement of its own.

Whatever it must be refused for, and whomever it must wake, is the same as for any other message.
`LONG` makes a message come the long way, and changes nothing about it otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.fixtures.clock import advance
from tests.sql.test_wakeups import Ear

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller

BARE: dict[str, Any] = {}
LONG: dict[str, Any] = {"headers": {}}
WAYS = pytest.mark.parametrize("options", [BARE, LONG], ids=["bare", "long"])


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish("t", "first")  # The first call of a session comes the long way.
    mq.drain("q")


def close_the_long_way(mq: Caller) -> None:
    mq.db.execute("""
        create or replace function penstock_data.topic_named(p_name text)
        returns table (
            id bigint, segment int, clock_shift interval, max_payload_bytes int,
            dedupe_window interval, always text[], awaited boolean, ready boolean
        ) language plpgsql stable as $$ begin raise 'the long way'; end $$""")


def no_fault(_: Caller) -> None: ...


def limited(mq: Caller) -> None:
    mq("configure", "max_payload_bytes", "100")


def full(mq: Caller) -> None:
    mq("configure", "max_log_bytes", "1")
    mq.rows("maintain")


def reserved(mq: Caller) -> None:
    mq("grant_topic", "t", "pg_monitor")
    mq.db.execute("set role penstock_publisher")


def restored(mq: Caller) -> None:
    mq.db.execute("update penstock_data.settings set incarnation_xid = '7'")


def forgotten(mq: Caller) -> None:
    mq.db.execute("delete from penstock_data.incarnation")


def read_only(mq: Caller) -> None:
    mq.db.execute("set default_transaction_read_only = on")


def reserved_in_a_full_log(mq: Caller) -> None:
    full(mq)
    reserved(mq)


def restored_and_full(mq: Caller) -> None:
    full(mq)
    restored(mq)


LARGE = "x" * 200
FAULTS: list[tuple[str, Callable[[Caller], None], str | None, Any]] = [
    ("PS001", no_fault, "nothing", 1),
    ("PS001", read_only, "nothing", 1),
    ("PS004", no_fault, "", 1),
    ("PS004", no_fault, None, 1),
    ("PS004", no_fault, "x" * 300, 1),
    ("PS005", no_fault, "t", None),
    ("PS007", limited, "t", LARGE),
    ("PS009", reserved, "t", 1),
    ("PS009", reserved, "t", None),
    ("PS009", reserved_in_a_full_log, "t", 1),
    ("PS010", restored, "t", 1),
    ("PS010", forgotten, "t", 1),
    ("PS013", full, "t", None),
    ("PS013", restored_and_full, "t", 1),
    ("25006", read_only, "t", 1),
]


def error(mq: Caller, topic: str | None, payload: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    body = None if payload is None else Jsonb(payload)
    with pytest.raises(psycopg.Error) as caught:
        mq("publish_message", topic, body, **options)
    said = caught.value.diag
    return said.sqlstate, said.message_primary, said.message_detail, said.message_hint


@pytest.mark.parametrize(
    ("code", "prepare", "topic", "payload"),
    FAULTS,
    ids=[f"{f[0]}-{f[1].__name__}-{i}" for i, f in enumerate(FAULTS)],
)
def test_bare_message_is_refused_with_the_same_words(
    mq: Caller, code: str, prepare: Callable[[Caller], None], topic: str | None, payload: Any
) -> None:
    prepare(mq)
    bare, long = (error(mq, topic, payload, options) for options in (BARE, LONG))
    # The size is part of the words, and empty headers have one.
    assert bare[0] == long[0] == code
    assert code == "PS007" or bare == long


def test_bare_message_at_the_limit_is_taken_and_one_beyond_is_not(mq: Caller) -> None:
    size = mq.value("select pg_column_size(%s::jsonb)", Jsonb(LARGE))
    mq("configure", "max_payload_bytes", str(size))
    mq.publish("t", LARGE)
    mq("configure", "max_payload_bytes", str(size - 1))
    assert error(mq, "t", LARGE, BARE)[0] == "PS007"
    assert mq.drain("q") == [LARGE]


def test_bare_message_is_stored_like_any_other(mq: Caller) -> None:
    bare, long = mq.publish("t", "same"), mq.publish("t", "same", **LONG)
    assert bare < long
    stored = mq.query(
        "select to_jsonb(m) - array['id', 'xid', 'published_at', 'headers'] as row, "
        "clock_timestamp() - m.published_at between '0' and '1 minute' as now "
        "from penstock_data.messages m where id in (%s, %s)",
        bare,
        long,
    )
    assert stored[0] == stored[1]
    assert stored[0].now


def test_bare_message_does_not_take_the_long_way(mq: Caller) -> None:
    close_the_long_way(mq)
    message_id = mq.publish("t", "short")
    assert [row.message_id for row in mq.consume("q")] == [message_id]
    with pytest.raises(psycopg.Error, match="the long way"):
        mq.publish("t", "long", **LONG)


def test_reserved_topic_takes_bare_messages_the_short_way(mq: Caller) -> None:
    mq("grant_topic", "t", "penstock_publisher")
    close_the_long_way(mq)
    mq.db.execute("set role penstock_publisher")
    mq.publish("t", "short")
    mq.db.execute("reset role")
    assert mq.payloads("q") == ["short"]


def test_waiting_consumer_is_woken_the_short_way(mq: Caller, connect: Connect) -> None:
    ear = Ear(connect(), mq.db)
    ear.listen(mq("start_waiting", "q"))
    close_the_long_way(mq)
    with mq.db.transaction():
        first = mq.publish("t", 1)
        mq.publish("t", 2)
    assert ear.heard() == [("queue:q", str(first))]


@WAYS
def test_queue_that_is_always_notified_hears_of_every_message(
    mq: Caller, connect: Connect, options: dict[str, Any]
) -> None:
    mq("create_queue", "loud", "t", notify="always")
    ear = Ear(connect(), mq.db)
    ear.listen(mq("queue_channel", "loud"))
    ids = [mq.publish("t", n, **options) for n in range(2)]
    assert ear.heard() == [("queue:loud", str(n)) for n in ids]


@WAYS
def test_who_stopped_waiting_during_the_callers_statement_is_not_woken(
    mq: Caller, connect: Connect, options: dict[str, Any]
) -> None:
    ear = Ear(connect(), mq.db)
    ear.listen(mq("start_waiting", "q"))
    headers = "headers => '{}'" if options else "headers => null"
    mq.db.execute(f"""
        do $$ begin
            update penstock_data.waiting set until = clock_timestamp();
            perform penstock.publish_message('t', '1', {headers});
        end $$""")
    assert ear.heard() == []


@WAYS
def test_bare_message_has_the_engines_time(mq: Caller, options: dict[str, Any]) -> None:
    advance(mq.db, seconds=3600)
    before = mq.at(seconds=0)
    mq.publish("t", 1, **options)
    (row,) = mq.consume("q")
    assert before <= row.published_at <= mq.at(seconds=0)


def test_message_that_is_refused_leaves_the_session_able_to_publish(mq: Caller) -> None:
    assert error(mq, "nothing", 1, BARE)[0] == "PS001"
    mq("create_topic", "nothing")
    assert mq.publish("nothing", 1) > 0
