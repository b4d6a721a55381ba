"""Claims: what a message's handle does, and what it says when the claim is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from penstock.client import calls
from penstock.client._async.client import connect
from penstock.client.calls import Call
from penstock.client.values import one
from penstock.errors import InvalidSetting
from penstock.observe import events
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    import psycopg

    from penstock import Client
    from tests.fixtures.databases import Database

MINUTE = timedelta(minutes=1)


async def test_an_acked_message_is_gone(mq: Client, orders: str) -> None:
    await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    assert await message.ack() is True
    assert await message.ack() is False
    assert (await mq.queue_statistics("billing")).completed_count == 1


async def test_messages_are_acked_and_others_claimed_in_one_call(mq: Client, orders: str) -> None:
    ids = (await mq.publish_many(orders, range(5))).ids
    done = await mq.claim("billing", count=2, payload_type=int)
    heard: list[events.Event] = []
    with events.subscribe(heard.append):
        acked, messages = await mq.ack_and_claim(done, count=2, claim_for=MINUTE)
    assert acked == ids[:2]
    assert [(each.id, each.payload, each.token) for each in messages] == [
        (ids[2], 2, done[0].token),
        (ids[3], 3, done[0].token),
    ]
    told = [(each.name, each.count) for each in heard]
    assert told == [("message.acked", 2), ("message.claimed", 2)]
    assert (await mq.queue_statistics("billing")).completed_count == 2
    rest = await mq.ack_and_claim(messages, count=10)
    assert [each.id for each in rest.messages] == ids[4:]
    assert await mq.ack_and_claim(rest.messages) == (ids[4:], [])


async def test_a_claim_that_has_ended_is_not_acked_and_others_are_claimed(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    first, second = (await mq.publish_many(orders, range(2))).ids
    late = await mq.claim("billing", claim_for=MINUTE)
    advance(db, 61)
    (again,) = await mq.claim("billing")
    assert again.id == first
    acked, messages = await mq.ack_and_claim(late)
    assert acked == []
    assert [each.id for each in messages] == [second]
    assert await again.ack() is True


async def test_what_is_acked_and_claimed_at_once_comes_from_one_claim(
    mq: Client, orders: str
) -> None:
    await mq.publish_many(orders, range(3))
    one = await mq.claim("billing")
    other = await mq.claim("billing")
    with pytest.raises(InvalidSetting, match="several claims"):
        await mq.ack_and_claim([*one, *other])
    with pytest.raises(InvalidSetting, match="begin with claim"):
        await mq.ack_and_claim([])
    assert (await mq.queue_statistics("billing")).completed_count == 0


async def test_a_nacked_message_comes_back_after_its_delay(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    assert await message.nack(delay=MINUTE, error="no funds") is True
    assert await mq.claim("billing") == []
    advance(db, 61)
    (again,) = await mq.claim("billing")
    assert (again.id, again.attempt) == (message.id, 2)


async def test_a_released_message_comes_back_as_if_unclaimed(mq: Client, orders: str) -> None:
    await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    assert await message.release() is True
    (again,) = await mq.claim("billing")
    assert again.attempt == 1


async def test_a_buried_message_is_a_dead_letter_with_its_reason(mq: Client, orders: str) -> None:
    await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    assert await message.bury("hopeless") is True
    assert [letter.error for letter in await mq.dead_letters("billing")] == ["hopeless"]


async def test_a_message_that_dies_of_its_last_nack_is_told_as_dead(
    mq: Client, orders: str
) -> None:
    await mq.create_queue("strict", topic=orders, max_delivery_attempts=1)
    await mq.publish_many(orders, range(2))
    heard: list[events.Event] = []
    with events.subscribe(heard.append):
        one, other = await mq.claim("strict", count=2)
        assert await one.nack(error="no") is True
        assert await mq.nack_many("strict", [one.id, other.id], other.token) == [other.id]
        (patient,) = await mq.claim("billing")
        assert await patient.nack() is True
    dead = [each.message_id for each in heard if each.name == "message.dead_lettered"]
    assert dead == [one.id, other.id]


async def test_an_extended_claim_lasts_longer(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    await mq.publish(orders, 1)
    (message,) = await mq.claim("billing", claim_for=MINUTE)
    before = message.claimed_until
    assert await message.extend(MINUTE) == message.claimed_until == before + MINUTE
    advance(db, 61)
    assert await mq.claim("billing") == []
    advance(db, 60)
    assert await message.extend(MINUTE) is None


async def test_a_claim_that_ended_is_lost_to_every_method(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    await mq.publish(orders, 1)
    (late,) = await mq.claim("billing", claim_for=MINUTE)
    advance(db, 61)
    (current,) = await mq.claim("billing", claim_for=MINUTE)
    assert await late.ack() is False
    assert await late.nack() is False
    assert await late.release() is False
    assert await late.bury("x") is False
    assert await current.ack() is True


async def test_many_messages_are_acked_nacked_released_and_extended_at_once(
    mq: Client, orders: str
) -> None:
    await mq.publish_many(orders, range(4))
    claimed = await mq.claim("billing", count=4, token="me")
    ids = [each.id for each in claimed]
    assert list(await mq.extend_many("billing", ids, "me", MINUTE)) == ids
    assert await mq.ack_many("billing", ids[:1], "me") == ids[:1]
    assert await mq.nack_many("billing", ids[1:2], "me", delay=MINUTE) == ids[1:2]
    assert await mq.release_many("billing", ids[2:3], "me") == ids[2:3]
    assert await mq.ack_many("billing", ids, "somebody else") == []
    statistics = await mq.queue_statistics("billing")
    assert (statistics.completed_count, statistics.processing_count) == (1, 1)
    assert statistics.pending_count == 2


async def test_an_ack_in_a_transaction_holds_only_if_it_commits(mq: Client, orders: str) -> None:
    await mq.publish(orders, 1)
    (message,) = await mq.claim("billing")
    try:
        async with mq.transaction() as connection:
            assert await message.ack(connection=connection) is True
            raise LookupError
    except LookupError:
        pass
    assert (await mq.queue_statistics("billing")).processing_count == 1
    async with mq.transaction() as connection:
        assert await message.ack(connection=connection) is True
    assert (await mq.queue_statistics("billing")).processing_count == 0


@pytest.mark.parametrize("pooler", [False, True])
async def test_a_claim_commits_without_waiting_for_the_disk_and_nothing_else_does(
    database: Database, pooler: bool
) -> None:
    asked = Call("select current_setting('synchronous_commit')", (), one(str))
    dsn = make_conninfo(database.dsn, options="-c synchronous_commit=on")
    async with connect(dsn, pooler=pooler) as mq:
        assert await mq.database.claim(asked) == "off"
        assert await mq.database.run(asked) == "on"


async def test_a_message_s_text_hides_its_payload(mq: Client, orders: str) -> None:
    await mq.publish(orders, {"password": "secret"})
    (message,) = await mq.claim("billing")
    assert "secret" not in repr(message)
    assert str(message.id) in repr(message)


async def test_a_claim_that_did_not_get_its_turn_is_told_apart_from_an_empty_queue(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    claim = calls.consume_batch("billing", "me", MINUTE, 1)
    assert not isinstance(await mq.database.claim(claim), calls.Busy)
    await mq.publish(orders, 1)
    db.execute("select penstock.configure('lock_wait', '10 milliseconds')")
    with db.transaction():
        db.execute("select penstock_data.lock_queue('billing')")
        found = await mq.database.claim(claim)
        assert isinstance(found, calls.Busy)
        assert found == []
        assert await mq.claim("billing") == []
    assert len(await mq.claim("billing")) == 1
