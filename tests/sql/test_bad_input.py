"""Bad input: a clear error from the engine, and nothing changed."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.sql.caller import Caller

# Calls on a queue, without its name.
QUEUE_CALLS: dict[str, tuple[Any, ...]] = {
    "consume_message": ("me",),
    "consume_messages_batch": ("me", 30, 1),
    "ack_message": (1, "me"),
    "ack_messages": ([1], "me"),
    "nack_message": (1, "me"),
    "nack_messages": ([1], "me"),
    "fail_messages": ([1], "me"),
    "bury_message": (1, "me"),
    "release_message": (1, "me"),
    "release_messages": ([1], "me"),
    "extend_message_vt": (1, "me", 10),
    "batch_extend_message_vt": ([1], "me", 10),
    "extend_queue_keep_alive": (10,),
    "delete_queue": (),
    "get_queue_statistics": (),
    "requeue_dlq_messages": (),
    "cleanup_queue_messages": (),
    "purge_queue": (),
    "get_next_visible_time": (),
    "message_state": (1,),
    "browse_messages": (),
    "key_counts": (),
    "suspect_messages": ("me",),
    "defer_suspects": ("me",),
    "begin_attempt": (1, "me"),
    "start_waiting": (),
    "grant_queue": ("penstock_consumer",),
    "revoke_queue": ("penstock_consumer",),
}
TOPIC_CALLS: dict[str, tuple[Any, ...]] = {
    "publish_message": (Jsonb(1),),
    "publish_messages": ([Jsonb(1)],),
    "delete_topic": (),
    "cleanup_topic_messages": (),
    "grant_topic": ("penstock_publisher",),
    "revoke_topic": ("penstock_publisher",),
}
READER_CALLS: dict[str, tuple[Any, ...]] = {
    "read_window": (),
    "commit_window": (1,),
    "delete_reader": (),
    "grant_reader": ("penstock_consumer",),
    "revoke_reader": ("penstock_consumer",),
}
MALFORMED = [None, "", "   ", "x" * 201, "line\nbreak", "tab\there", "\x01", "del\x7f"]
CALLS = [
    *((call, rest, "PS002") for call, rest in QUEUE_CALLS.items()),
    *((call, rest, "PS001") for call, rest in TOPIC_CALLS.items()),
    *((call, rest, "PS003") for call, rest in READER_CALLS.items()),
]


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("create_reader", "r", "t")


@pytest.mark.parametrize(("call", "rest", "code"), CALLS, ids=[call for call, _, _ in CALLS])
def test_unknown_and_malformed_names_are_refused(
    mq: Caller, call: str, rest: tuple[Any, ...], code: str
) -> None:
    with nothing_changes(mq.db):
        for unknown in ("nothing", "Q", "q ", "'; drop table x; --"):
            with refused(code, "does not exist"):
                mq.rows(call, unknown, *rest)
        for malformed in MALFORMED:
            with refused("PS004", "name"):
                mq.rows(call, malformed, *rest)


@pytest.mark.parametrize("call", ["create_topic", "create_queue", "create_reader"])
def test_nothing_is_created_under_a_malformed_name(mq: Caller, call: str) -> None:
    rest = ("t",) if call == "create_reader" else ()
    with nothing_changes(mq.db):
        for malformed in MALFORMED:
            with refused("PS004", "name"):
                mq.rows(call, malformed, *rest)
    if call != "create_topic":
        for malformed in MALFORMED[1:]:
            with nothing_changes(mq.db), refused("PS004", "topic"):
                mq.rows(call, "fine", malformed)


CREATE_QUEUE: list[tuple[str, Any]] = [
    ("exclusive", None),
    ("max_delivery_attempts", None),
    ("max_delivery_attempts", -1),
    ("max_delivery_attempts", 2_000_000_000),
    ("keep_alive_seconds", 10),
    ("ordering", None),
    ("ordering", "FIFO"),
    ("ordering", "random"),
    ("start_at", None),
    ("start_at", ""),
    ("start_at", "the day before"),
    ("start_at", "infinity"),
    ("start_at", "-infinity"),
    ("retry_base_seconds", -1),
    ("retry_base_seconds", None),
    ("retry_base_seconds", 10**12),
    ("retry_base_seconds", Decimal("NaN")),
    ("retry_cap_seconds", -1),
    ("retry_cap_seconds", 10**12),
    ("retention", timedelta(0)),
    ("retention", timedelta(days=-1)),
    ("retention", timedelta(days=365 * 1000)),
    ("filter", "null"),
    ("notify", "sometimes"),
    ("notify", None),
]


@pytest.mark.parametrize(("setting", "value"), CREATE_QUEUE)
def test_queue_with_an_absurd_setting_is_refused(mq: Caller, setting: str, value: Any) -> None:
    with nothing_changes(mq.db), refused("PS005", setting):
        mq("create_queue", "new", "t", **{setting: value})


@pytest.mark.parametrize("seconds", [0, -1, None, 2_000_000_000])
def test_absurd_keep_alive_is_refused(mq: Caller, seconds: int | None) -> None:
    mq("create_queue", "mine", exclusive=True)
    with nothing_changes(mq.db), refused("PS005", "keep_alive_seconds"):
        mq("extend_queue_keep_alive", "mine", seconds)


def test_absurd_retention_of_a_topic_is_refused(mq: Caller) -> None:
    for days in (-1, 365 * 1000):
        with nothing_changes(mq.db), refused("PS005", "retention"):
            mq("create_topic", "new", timedelta(days=days))


MESSAGES: list[tuple[str, str, str, Any]] = [
    ("PS005", "headers", "headers", "[]"),
    ("PS005", "headers", "headers", '"text"'),
    ("PS005", "headers", "headers", "null"),
    ("PS005", "priority", "priority", None),
    ("PS005", "priority", "priority", 1001),
    ("PS005", "priority", "priority", -1001),
    ("PS007", "key", "key", "x" * 1025),
    ("PS007", "key", "key", "ü" * 513),
    ("PS007", "dedupe_key", "dedupe_key", "x" * 1025),
    ("PS007", "correlation_id", "correlation_id", "x" * 1025),
    ("PS007", "tenant_id", "tenant_id", "x" * 1025),
    ("PS005", "deliver_after", "deliver_after", "infinity"),
    ("PS005", "deliver_after", "deliver_after", "3000-01-01"),
    ("PS005", "expires_at", "expires_at", "-infinity"),
    ("PS005", "expires_at", "expires_at", "2001-01-01"),
]


@pytest.mark.parametrize(
    ("code", "word", "argument", "value"),
    MESSAGES,
    ids=[f"{m[2]}-{m[0]}-{i}" for i, m in enumerate(MESSAGES)],
)
def test_message_with_an_absurd_property_is_refused(
    mq: Caller, code: str, word: str, argument: str, value: Any
) -> None:
    with nothing_changes(mq.db), refused(code, word):
        mq.publish("t", 1, **{argument: value})
    plural = {"key": "keys", "priority": "priorities", "dedupe_key": "dedupe_keys"}
    plural |= {"correlation_id": "correlation_ids", "tenant_id": "tenant_ids"}
    if value is not None:
        with nothing_changes(mq.db), refused(code, word):
            mq.publish_many("t", [1, 2], **{plural.get(argument, argument): [None, value]})


def test_message_that_expires_before_it_is_due_is_refused(mq: Caller) -> None:
    with nothing_changes(mq.db), refused("PS005", "expires_at"):
        mq.publish("t", 1, deliver_after=mq.at(seconds=60), expires_at=mq.at(seconds=30))


@pytest.mark.parametrize("window", [timedelta(seconds=-1), timedelta(days=365 * 1000)])
def test_absurd_dedupe_window_is_refused(mq: Caller, window: timedelta) -> None:
    with nothing_changes(mq.db), refused("PS005", "dedupe_window"):
        mq.publish("t", 1, dedupe_key="k", dedupe_window=window)


def test_null_payload_is_refused_and_the_json_null_is_not(mq: Caller) -> None:
    with nothing_changes(mq.db), refused("PS005", "payload"):
        mq("publish_message", "t", None)
    with nothing_changes(mq.db), refused("PS005", "payloads"):
        mq.rows("publish_messages", "t", None)
    mq.publish("t", None)
    assert mq.payloads("q") == [None]


def test_oversized_payload_and_headers_are_refused(mq: Caller) -> None:
    mq("configure", "max_payload_bytes", "1000")
    for options in ({"payload": "x" * 1001}, {"payload": 1, "headers": {"h": "x" * 1001}}):
        with nothing_changes(mq.db), refused("PS007", "1000"):
            mq.publish("t", **options)
    with nothing_changes(mq.db), refused("PS007", "1000"):
        mq.publish_many("t", [1, "x" * 1001])
    mq.publish("t", "x" * 900)
    assert len(mq.payloads("q")[0]) == 900


def test_payload_over_the_default_limit_is_refused(mq: Caller) -> None:
    with nothing_changes(mq.db), refused("PS007"):
        mq.db.execute("select penstock.publish_message('t', to_jsonb(repeat('x', 17000000)))")


@pytest.mark.parametrize("argument", ["payload", "headers"])
def test_nul_character_is_refused_by_the_database(mq: Caller, argument: str) -> None:
    text = '{"a": "\\u0000"}'
    payload, headers = (text, None) if argument == "payload" else ("1", text)
    with nothing_changes(mq.db), pytest.raises(psycopg.errors.UntranslatableCharacter):
        mq.db.execute(
            "select penstock.publish_message('t', %s::jsonb, headers => %s::jsonb)",
            (payload, headers),
        )


def test_deep_json_comes_back_or_is_refused(mq: Caller) -> None:
    deep = "[" * 1000 + "]" * 1000
    mq.db.execute("select penstock.publish_message('t', %s::jsonb)", (deep,))
    found = mq.value("select payload::text from penstock.consume_message('q', 'me')")
    assert found == deep
    deeper = "[" * 1_000_000 + "]" * 1_000_000
    with nothing_changes(mq.db), pytest.raises(psycopg.errors.StatementTooComplex):
        mq.db.execute("select penstock.publish_message('t', %s::jsonb)", (deeper,))


def test_large_numbers_come_back_exactly(mq: Caller) -> None:
    number = "1" + "0" * 300 + ".5"
    mq.db.execute("select penstock.publish_message('t', %s::jsonb)", (number,))
    assert mq.value("select payload::text from penstock.consume_message('q', 'me')") == number


CLAIMS: list[tuple[str, str, tuple[Any, ...]]] = [
    ("PS005", "consumer_token", (None, 30, 1)),
    ("PS005", "consumer_token", ("", 30, 1)),
    ("PS007", "consumer_token", ("x" * 1025, 30, 1)),
    ("PS005", "vt_seconds", ("me", None, 1)),
    ("PS005", "vt_seconds", ("me", -1, 1)),
    ("PS005", "vt_seconds", ("me", 2_000_000_000, 1)),
    ("PS005", "batch_size", ("me", 30, None)),
    ("PS005", "batch_size", ("me", 30, 0)),
    ("PS005", "batch_size", ("me", 30, -5)),
    ("PS005", "batch_size", ("me", 30, 1_000_000)),
]


@pytest.mark.parametrize(("code", "word", "values"), CLAIMS)
def test_absurd_claim_is_refused(mq: Caller, code: str, word: str, values: tuple[Any, ...]) -> None:
    mq.publish("t", 1)
    with nothing_changes(mq.db), refused(code, word):
        mq.rows("consume_messages_batch", "q", *values)


def test_absurd_delays_and_extensions_are_refused(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q")
    with nothing_changes(mq.db):
        for seconds in (-1, 2_000_000_000):
            with refused("PS005", "delay_seconds"):
                mq.nack("q", message_id, delay_seconds=seconds)
        for bad in (-1, 2_000_000_000, None):
            with refused("PS005", "extension_seconds"):
                mq("extend_message_vt", "q", message_id, "me", bad)
            with refused("PS005", "extension_seconds"):
                mq.rows("batch_extend_message_vt", "q", [message_id], "me", bad)
        for bad in (0, -1, None, 1_000_000_000):
            with refused("PS005", "seconds"):
                mq("start_waiting", "q", bad)


def test_absurd_pages_are_refused(mq: Caller) -> None:
    for bad in (0, -1, None, 1_000_000_000):
        for call in (("browse_messages", "q", 0, bad), ("key_counts", "q", bad)):
            with refused("PS005", "page_size"):
                mq.rows(*call)
        with refused("PS005", "max_rows"):
            mq.rows("read_window", "r", bad)


def test_null_ids_and_tokens_hold_nothing(mq: Caller) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q")
    with nothing_changes(mq.db):
        for call in ("ack_message", "nack_message", "release_message", "bury_message"):
            assert mq(call, "q", None, "me") is False
            assert mq(call, "q", message_id, None) is False
        for call in ("ack_messages", "nack_messages", "release_messages"):
            assert mq.rows(call, "q", None, "me") == []
            assert mq.rows(call, "q", [None], "me") == []
            assert mq.rows(call, "q", [message_id], None) == []
    assert mq.column("ack_messages", "q", [None, message_id, None], "me") == [message_id]


def test_ids_past_32_bits_work_everywhere(mq: Caller) -> None:
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq("create_queue", "turns", "t", ordering="fair")
    mq.db.execute("select setval('penstock_data.message_id', %s)", (2**31 - 3,))
    ids = mq.publish_many("t", list(range(6)))
    mq.db.execute("select setval('penstock_data.message_id', %s)", (2**53,))
    ids += [mq.publish("t", 6, priority=1), mq.publish("t", 7, key="k")]
    assert ids[-1] > 2**53
    for queue in ("q", "turns"):
        assert sorted(r.message_id for r in mq.consume(queue)) == ids
        assert mq.nack(queue, ids[-1], delay_seconds=0)
        assert mq.ack(queue, mq.consume(queue)[0].message_id)
        assert mq("extend_message_vt", queue, ids[3], "me", 5) is not None
        assert mq("release_message", queue, ids[4], "me")
        assert mq("bury_message", queue, ids[5], "me")
        assert mq("requeue_dlq_messages", queue, [ids[5]]) == 1
        assert mq.state(queue, ids[-1]) == "done"
    assert sorted(mq.drain("lanes")) == list(range(8))
    rows = mq.rows("read_window", "r")
    assert [r.message_id for r in rows] == ids
    assert mq("commit_window", "r", ids[-1])
    assert mq.ack("q", 2**62) is False


def test_internal_ids_past_32_bits_work_too(mq: Caller) -> None:
    for table in ("topics", "queues", "readers", "dead_letters"):
        mq.db.execute(
            f"alter table penstock_data.{table} alter id restart with 4294967299".encode()
        )
    assert mq("create_queue", "big", "bigtopic", max_delivery_attempts=1) == 4_294_967_299
    mq("create_queue", "bigger", "bigtopic", ordering="fifo")
    mq.publish_many("bigtopic", [1, 2])
    mq.nack("big", mq.consume("big", 1)[0].message_id)
    assert mq("requeue_dlq_messages", "big") == 1
    assert sorted(mq.drain("big")) == [1, 2]
    assert mq.drain("bigger") == [1, 2]
    mq.rows("maintain")
    mq("delete_topic", "bigtopic")


SETTINGS: list[tuple[str | None, str]] = [
    (None, "1"),
    ("", "1"),
    ("clock_shift", "1 day"),
    ("message_segment", "3"),
    ("single", "true"),
    ("segment_bytes", "many"),
    ("segment_bytes", "0"),
    ("segment_bytes", "-1"),
    ("segment_bytes", "9" * 30),
    ("max_payload_bytes", "0"),
    ("max_log_bytes", "-1"),
    ("segment_age", "soon"),
    ("segment_age", "-1 day"),
    ("segment_age", "9" * 30 + " years"),
    ("receipt_retention", "-1 day"),
    ("dedupe_window", "-1 day"),
    ("lock_wait", "-1 second"),
    ("lock_wait", "100 years"),
]


@pytest.mark.parametrize(("setting", "value"), SETTINGS)
def test_absurd_configuration_is_refused(mq: Caller, setting: str | None, value: str) -> None:
    with nothing_changes(mq.db), refused("PS005"):
        mq("configure", setting, value)


def test_many_ids_at_once_are_no_trouble(mq: Caller) -> None:
    ids = mq.publish_many("t", list(range(3_000)))
    assert len(mq.consume("q", 3_000)) == 3_000
    known_and_unknown = list(range(ids[0], ids[0] + 15_000))
    assert sorted(mq.column("ack_messages", "q", known_and_unknown, "me")) == ids
    assert mq.statistics("q").completed_count == 3_000
