"""Wake-ups: NOTIFY only when somebody waits, and once per queue and transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.clock import advance
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


class Ear:
    """A session that listens.  Notifications come in commit order, so our mark ends them."""

    def __init__(self, session: psycopg.Connection[Any], mouth: psycopg.Connection[Any]) -> None:
        self.session = session
        self.mouth = mouth
        self.listen("mark")

    def listen(self, channel: str) -> None:
        self.session.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def heard(self) -> list[tuple[str, str]]:
        self.mouth.execute("notify mark")
        found: list[tuple[str, str]] = []
        for note in self.session.notifies(timeout=30):
            if note.channel == "mark":
                return found
            found.append((note.channel, note.payload))
        raise AssertionError("the mark was not heard")


@pytest.fixture
def ear(mq: Caller, connect: Connect) -> Ear:
    mq("create_queue", "q", "t")
    found = Ear(connect(), mq.db)
    found.listen(mq("queue_channel", "q"))
    return found


def test_publishing_to_a_queue_that_nobody_waits_for_notifies_nobody(mq: Caller, ear: Ear) -> None:
    mq.publish("t", 1)
    mq.publish_many("t", [2, 3])
    assert ear.heard() == []


def test_waiting_consumer_is_woken_with_the_messages_id(mq: Caller, ear: Ear) -> None:
    assert mq("start_waiting", "q") == mq("queue_channel", "q") == "queue:q"
    message_id = mq.publish("t", 1)
    assert ear.heard() == [("queue:q", str(message_id))]


@pytest.mark.parametrize(
    "verb", ["publish_message('nobody', '1')", "publish_messages('nobody', '{1}')"]
)
def test_publisher_is_seen_to_write_before_it_looks_for_sleepers(
    mq: Caller, connect: Connect, verb: str
) -> None:
    """Here it fails at its topic, with which it looks: whoever lies down later finds it writing."""
    publisher = connect(autocommit=False)
    publisher.execute("savepoint s")
    with pytest.raises(psycopg.Error, match="nobody"):
        publisher.execute(f"select penstock.{verb}")
    publisher.execute("rollback to s")
    mark = mq.value("select pg_current_xact_id()::text::bigint")
    oldest = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    assert mq.value(oldest) < mark
    publisher.rollback()
    assert mq.value(oldest) > mark


def test_publish_messages_wakes_once(mq: Caller, ear: Ear) -> None:
    mq("start_waiting", "q")
    ids = mq.publish_many("t", [1, 2, 3])
    assert ear.heard() == [("queue:q", str(ids[-1]))]


def test_one_transaction_wakes_once(mq: Caller, ear: Ear) -> None:
    mq("start_waiting", "q")
    with mq.db.transaction():
        first = mq.publish("t", 1)
        mq.publish("t", 2)
        mq.publish_many("t", [3, 4])
    assert ear.heard() == [("queue:q", str(first))]


def test_rolled_back_publisher_wakes_nobody(mq: Caller, ear: Ear, connect: Connect) -> None:
    mq("start_waiting", "q")
    other = connect(autocommit=False)
    other.execute("select penstock.publish_message('t', '1')")
    other.rollback()
    assert ear.heard() == []


def test_wake_up_survives_a_savepoint_that_was_rolled_back(mq: Caller, ear: Ear) -> None:
    mq("start_waiting", "q")
    with mq.db.transaction():
        mq.db.execute("savepoint s")
        mq.publish("t", "lost")
        mq.db.execute("rollback to s")
        message_id = mq.publish("t", "kept")
    assert ear.heard() == [("queue:q", str(message_id))]


def test_only_the_queue_that_somebody_waits_for_is_woken(mq: Caller, ear: Ear) -> None:
    mq("create_queue", "other", "t")
    ear.listen("queue:other")
    mq("start_waiting", "other")
    mq.publish("t", 1)
    assert [channel for channel, _ in ear.heard()] == ["queue:other"]


def test_claim_that_found_something_ends_the_wait(mq: Caller, ear: Ear) -> None:
    mq("start_waiting", "q")
    mq.publish("t", 1)
    assert len(ear.heard()) == 1
    assert len(mq.consume("q")) == 1
    mq.publish("t", 2)
    assert ear.heard() == []


@pytest.mark.parametrize("claim", ["consume_message", "consume_messages_batch"])
def test_claim_ends_the_wait_of_its_own_token_alone(mq: Caller, ear: Ear, claim: str) -> None:
    """Somebody else who sleeps is woken by the next message, while we are busy with this one."""
    for token in ("mine", "theirs"):
        mq("start_waiting", "q", 5, token)
    size = [1] if claim == "consume_messages_batch" else []
    mq.publish("t", 1)
    assert len(ear.heard()) == 1
    assert mq.rows(claim, "q", "mine", 30, *size)
    mq.publish("t", 2)
    assert len(ear.heard()) == 1
    assert mq.rows(claim, "q", "theirs", 30, *size)
    mq.publish("t", 3)
    assert ear.heard() == []


def test_claim_that_found_nothing_does_not_end_the_wait(mq: Caller, ear: Ear) -> None:
    mq("start_waiting", "q")
    assert mq.consume("q") == []
    mq.publish("t", 1)
    assert len(ear.heard()) == 1


def test_wait_ends_by_itself(mq: Caller, ear: Ear) -> None:
    mq("start_waiting", "q", 5)
    advance(mq.db, seconds=6)
    mq.publish("t", 1)
    assert ear.heard() == []
    done = maintain(mq.db)
    assert done["registrations dropped"] == 1


def test_message_that_comes_back_wakes_too(mq: Caller, ear: Ear) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q", token="a")
    mq("start_waiting", "q")
    mq("release_message", "q", message_id, "a")
    assert ear.heard() == [("queue:q", str(message_id))]


@pytest.mark.parametrize(("delay", "wakes"), [(0, True), (3, True), (60, False)])
def test_retry_wakes_only_those_who_would_oversleep_it(
    mq: Caller, ear: Ear, delay: int, wakes: bool
) -> None:
    """Who waits for five seconds looks again before a message of the next minute is due."""
    message_id = mq.publish("t", 1)
    mq.consume("q")
    mq("start_waiting", "q", 5)
    mq.nack("q", message_id, delay_seconds=delay)
    assert ear.heard() == [("queue:q", str(message_id))] * wakes


def test_message_that_dies_wakes_nobody(mq: Caller, ear: Ear) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q")
    mq("start_waiting", "q")
    mq("bury_message", "q", message_id, "me")
    assert ear.heard() == []


@pytest.mark.parametrize("verb", ["ack_message", "ack_messages", "bury_message"])
def test_end_of_a_keys_message_wakes_when_another_stands_behind_it(
    mq: Caller, ear: Ear, verb: str
) -> None:
    mq("create_queue", "line", "t", ordering="fifo")
    ear.listen("queue:line")
    ids = [mq.publish("t", number, key="a") for number in (1, 2)]
    for message_id, heard in zip(ids, [[("queue:line", str(ids[0]))], []], strict=True):
        assert [row.message_id for row in mq.consume("line")] == [message_id]
        mq("start_waiting", "line")
        mq(verb, "line", [message_id] if verb == "ack_messages" else message_id, "me")
        assert ear.heard() == heard


def test_end_of_a_part_of_a_batch_wakes_when_another_stands_behind_it(mq: Caller, ear: Ear) -> None:
    mq("create_queue", "line", "t", ordering="fifo")
    ear.listen("queue:line")
    first, other, _ = [mq.publish("t", number, key=key) for number, key in enumerate("aba")]
    assert {row.message_id for row in mq.consume("line", 2)} == {first, other}
    mq("start_waiting", "line")
    assert mq.consume("line") == []
    mq("ack_message", "line", other, "me")
    assert ear.heard() == []
    mq("ack_message", "line", first, "me")
    assert ear.heard() == [("queue:line", str(first))]


def test_ack_in_a_queue_without_lanes_wakes_nobody(mq: Caller, ear: Ear) -> None:
    mq("create_queue", "fair", "t", ordering="fair")
    ear.listen("queue:fair")
    message_id = mq.publish("t", 1, key="a")
    mq.publish("t", 2, key="a")
    for name in ("q", "fair"):
        mq.consume(name)
        mq("start_waiting", name)
        mq.ack(name, message_id)
    assert ear.heard() == []


def test_requeued_dead_letter_wakes_too(mq: Caller, ear: Ear) -> None:
    message_id = mq.publish("t", 1)
    mq.consume("q")
    mq("bury_message", "q", message_id, "me")
    mq("start_waiting", "q")
    mq("requeue_dlq_messages", "q")
    assert ear.heard() == [("queue:q", str(message_id))]


def test_queue_with_notify_always_is_always_notified(mq: Caller, ear: Ear) -> None:
    mq("create_queue", "loud", "t", notify="always")
    ear.listen("queue:loud")
    message_id = mq.publish("t", 1)
    assert ear.heard() == [("queue:loud", str(message_id))]
    mq.consume("loud")
    mq("release_message", "loud", message_id, "me")
    assert ear.heard() == [("queue:loud", str(message_id))]
    mq.consume("loud")
    mq.nack("loud", message_id, delay_seconds=60)
    assert ear.heard() == [("queue:loud", str(message_id))]
    mq("delete_queue", "loud")
    mq.publish("t", 2)
    assert ear.heard() == []


def test_queue_with_notify_never_is_never_notified(mq: Caller, ear: Ear) -> None:
    mq("create_queue", "quiet", "t", notify="never")
    ear.listen("queue:quiet")
    assert mq("start_waiting", "quiet") == "queue:quiet"
    mq.publish("t", 1)
    assert ear.heard() == []


LONG = [
    "x" * 56,
    "x" * 57,
    "x" * 199 + "a",
    "x" * 199 + "b",
    "ü" * 200,
    "注" * 67,
    "\U0001f600" * 50,
]


@pytest.mark.parametrize("name", LONG, ids=range(len(LONG)))
def test_long_name_gets_a_channel_that_postgres_takes(
    mq: Caller, connect: Connect, name: str
) -> None:
    mq("create_queue", name, "t", notify="always")
    channel = mq("queue_channel", name)
    assert len(channel.encode()) <= 63
    ear = Ear(connect(), mq.db)
    ear.listen(channel)
    message_id = mq.publish("t", 1)
    assert ear.heard() == [(channel, str(message_id))]


def test_two_names_never_share_a_channel(mq: Caller) -> None:
    names = LONG + [name[:-1] for name in LONG] + [name + "~" for name in LONG if len(name) < 200]
    channels = {name: mq("queue_channel", name) for name in names}
    # A short name may look like the channel of a long one, and still has its own.
    lookalikes = [c.removeprefix("queue:") for c in channels.values()]
    channels |= {name: mq("queue_channel", name) for name in lookalikes}
    assert len(set(channels.values())) == len(channels)


def test_many_who_wait_register_once(mq: Caller, ear: Ear) -> None:
    for _ in range(20):
        mq("start_waiting", "q")
    assert mq.value("select count(*) from penstock_data.waiting") == 1


def test_a_publish_that_wakes_a_consumer_can_not_be_prepared(mq: Caller, connect: Connect) -> None:
    mq("create_queue", "q", "t")
    mq("start_waiting", "q", 60)
    publisher = connect(autocommit=False)
    publisher.execute("select penstock.publish_message('t', '1')")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="NOTIFY"):
        publisher.execute("prepare transaction 'order'")
    publisher.rollback()
    assert mq.consume("q") == []


@pytest.mark.parametrize("waiting", [True, False])
def test_a_publish_can_be_prepared_when_no_queue_of_the_topic_notifies(
    mq: Caller, connect: Connect, waiting: bool
) -> None:
    mq("create_queue", "silent", "orders", notify="never")
    if waiting:
        mq("start_waiting", "silent", 60)
    publisher = connect(autocommit=False)
    publisher.execute("select penstock.publish_message('orders', '1')")
    publisher.execute("prepare transaction 'order'")
    assert mq.consume("silent") == []
    mq.db.execute("commit prepared 'order'")
    assert mq.payloads("silent") == [1]
