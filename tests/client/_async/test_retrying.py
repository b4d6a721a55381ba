"""Connections break at every moment: what can be repeated is, and for the rest nobody pretends."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import errors
from penstock.client._async.client import connect
from penstock.postgres._async.concurrency import Background
from tests.fixtures.patience import eventually_async
from tests.fixtures.proxy import Moment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from penstock import Client
    from tests.fixtures.databases import Connect, Database
    from tests.fixtures.proxy import Proxy

OTHERS = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
EVERYBODY = f"select pg_terminate_backend(pid, 60000) {OTHERS}"
BLOCKED = f"select pg_terminate_backend(pid, 60000) {OTHERS} and wait_event_type = 'Lock'"


@pytest.fixture
async def shaky(proxy: Proxy) -> AsyncIterator[Client]:
    """A client whose connections can be cut, with a queue "billing" of "orders"."""
    async with connect(proxy.dsn) as client:
        await client.create_queue("billing", topic="orders")
        yield client


def published(db: psycopg.Connection[Any]) -> int:
    row = db.execute("select count(*) from penstock.messages").fetchone()
    assert row is not None
    found: int = row[0]
    return found


async def test_connections_that_died_idle_cost_nobody_anything(
    mq: Client, orders: str, db: psycopg.Connection[Any]
) -> None:
    await mq.publish(orders, 1)
    await mq.claim("billing")
    db.execute(EVERYBODY)
    await mq.publish(orders, 2)
    assert [each.payload for each in await mq.claim("billing")] == [2]
    db.execute(EVERYBODY)
    async with mq.transaction() as connection:
        await mq.publish(orders, 3, connection=connection)
    assert published(db) == 3


async def hold(mq: Client, count: int) -> None:
    """Borrow so many connections at once, and give them back."""
    if count:
        async with mq.transaction():
            await hold(mq, count - 1)


async def test_a_whole_pool_that_died_idle_is_passed_over_at_once(
    database: Database, db: psycopg.Connection[Any]
) -> None:
    """As after a restart of the server: one dead connection after the other."""
    async with connect(database.dsn, pool_size=8, retry_for=timedelta(0)) as mq:
        await mq.create_topic("orders")
        await hold(mq, 8)
        db.execute(EVERYBODY)
        await mq.publish("orders", 1)
        await hold(mq, 8)
        db.execute(EVERYBODY)
        async with mq.transaction() as connection:
            await mq.publish("orders", 2, connection=connection)
    assert published(db) == 2


async def test_a_publish_cut_before_its_answer_has_an_unknown_outcome(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    proxy.cut_at(b"publish_message(", Moment.AFTER)
    with pytest.raises(errors.OutcomeUnknown, match="dedupe_key"):
        await shaky.publish("orders", 1)
    await eventually_async(lambda: published(db) == 1)


async def test_a_publish_cut_before_the_server_got_it_is_as_unknown(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    proxy.cut_at(b"publish_message(", Moment.BEFORE)
    with pytest.raises(errors.OutcomeUnknown):
        await shaky.publish("orders", 1)
    assert published(db) == 0


@pytest.mark.parametrize("moment", Moment)
async def test_with_a_dedupe_key_it_is_published_exactly_once(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any], moment: Moment
) -> None:
    cut = proxy.cut_at(b"publish_message(", moment)
    await shaky.publish("orders", 1, dedupe_key="k")
    assert cut.is_set()
    assert published(db) == 1


@pytest.mark.parametrize("moment", Moment)
async def test_many_with_dedupe_keys_are_published_exactly_once(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any], moment: Moment
) -> None:
    proxy.cut_at(b"publish_messages(", moment)
    await shaky.publish_many("orders", [1, 2], dedupe_keys=["a", "b"])
    assert published(db) == 2
    proxy.cut_at(b"publish_messages(", moment)
    with pytest.raises(errors.OutcomeUnknown):
        await shaky.publish_many("orders", [3, 4], dedupe_keys=["c", None])


async def test_a_publisher_whose_session_is_ended_in_the_middle_begins_again(
    mq: Client, orders: str, db: psycopg.Connection[Any], connect: Connect
) -> None:
    # Publishers of one dedupe key wait for each other, so the second can be met while it runs.
    first = connect(autocommit=False)
    first.execute("select penstock.publish_message('orders', '1', dedupe_key => 'k')")
    numbers: list[int] = []

    async def publish() -> None:
        numbers.append(await mq.publish(orders, 2, dedupe_key="k"))

    publishing = Background(publish, "publishing")
    publishing.start()
    await eventually_async(lambda: db.execute(BLOCKED).fetchall())
    first.rollback()
    await publishing.stop(60)
    assert len(numbers) == 1
    assert [each.payload for each in await mq.claim("billing", count=9)] == [2]


@pytest.mark.parametrize("moment", list(Moment))
async def test_an_ack_with_a_claim_is_repeated_and_told_as_it_is(
    shaky: Client, proxy: Proxy, moment: Moment
) -> None:
    ids = (await shaky.publish_many("orders", range(4))).ids
    done = await shaky.claim("billing", count=2)
    cut = proxy.cut_at(b"ack_and_consume_batch(", moment)
    acked, messages = await shaky.ack_and_claim(done)
    assert cut.is_set()
    assert acked == ids[:2]
    # What the first sending claimed, if it arrived, comes back when that claim ends.
    assert [each.id for each in messages] == [ids[3] if moment is Moment.AFTER else ids[2]]


@pytest.mark.parametrize("moment", Moment)
async def test_an_ack_is_repeated_and_tells_the_truth(
    shaky: Client, proxy: Proxy, moment: Moment
) -> None:
    await shaky.publish_many("orders", [1, 2, 3])
    one, *others = await shaky.claim("billing", count=3)
    proxy.cut_at(b"ack_message(", moment)
    assert await one.ack() is True
    proxy.cut_at(b"ack_messages(", moment)
    ids = [each.id for each in others]
    assert sorted(await shaky.ack_many("billing", ids, one.token)) == ids
    assert await one.ack() is False, "the truth about an ack that was done long before"


@pytest.mark.parametrize("moment", Moment)
async def test_what_was_deleted_in_silence_is_no_error(
    shaky: Client, proxy: Proxy, moment: Moment
) -> None:
    await shaky.create_reader("audit", "orders")
    proxy.cut_at(b"delete_reader(", moment)
    await shaky.delete_reader("audit")
    proxy.cut_at(b"delete_queue(", moment)
    await shaky.delete_queue("billing")
    proxy.cut_at(b"delete_topic(", moment)
    await shaky.delete_topic("orders")
    assert await shaky.list_topics() == []


async def test_a_claim_is_made_again(shaky: Client, proxy: Proxy) -> None:
    await shaky.publish("orders", 1)
    proxy.cut_at(b"consume_messages_batch(", Moment.BEFORE)
    assert [each.payload for each in await shaky.claim("billing")] == [1]


async def test_a_commit_cut_before_its_answer_has_an_unknown_outcome(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    proxy.cut_at(b"commit", Moment.AFTER)
    with pytest.raises(errors.OutcomeUnknown):
        async with shaky.transaction() as connection:
            await shaky.publish("orders", 1, connection=connection)
    await eventually_async(lambda: published(db) == 1)


async def test_what_breaks_inside_a_transaction_is_the_caller_s_to_repeat(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    proxy.cut_at(b"publish_message(", Moment.AFTER)
    with pytest.raises(errors.DatabaseUnavailable):
        async with shaky.transaction() as connection:
            await shaky.publish("orders", 1, dedupe_key="k", connection=connection)
    assert published(db) == 0


async def test_a_stream_cut_before_a_commit_goes_on(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    proxy.cut_at(b"publish_stage(", Moment.AFTER)
    assert await shaky.publish_stream("orders", range(25), batch_size=10) == 25
    assert published(db) == 25


async def test_a_stream_cut_at_a_commit_goes_on_only_with_dedupe_keys(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    items = [penstock.Outgoing(number, dedupe_key=str(number)) for number in range(5)]
    proxy.cut_at(b"commit", Moment.AFTER)
    assert await shaky.publish_stream("orders", items) == 5
    assert published(db) == 5
    proxy.cut_at(b"commit", Moment.AFTER)
    with pytest.raises(errors.OutcomeUnknown):
        await shaky.publish_stream("orders", [1, 2])


async def test_an_outage_is_sat_out(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    proxy.refusing = True
    proxy.cut()

    async def publish() -> None:
        await shaky.publish("orders", 1)

    publishing = Background(publish, "publishing")
    publishing.start()
    await eventually_async(lambda: proxy.turned_away > 0)
    assert published(db) == 0
    proxy.heal()
    await publishing.stop(60)
    assert published(db) == 1


async def test_patience_has_an_end(proxy: Proxy) -> None:
    options = {"retry_for": timedelta(0), "connect_timeout": timedelta(seconds=2)}
    async with connect(proxy.dsn, **options) as impatient:
        await impatient.create_topic("orders")
        proxy.refusing = True
        proxy.cut()
        with pytest.raises(errors.DatabaseUnavailable, match="PENSTOCK_POOL_SIZE"):
            await impatient.publish("orders", 1)


async def test_requeueing_dead_letters_is_not_repeated_blindly(shaky: Client, proxy: Proxy) -> None:
    await shaky.publish("orders", 1)
    (message,) = await shaky.claim("billing")
    await message.bury("x")
    proxy.cut_at(b"requeue_dlq_messages(", Moment.AFTER)
    with pytest.raises(errors.OutcomeUnknown):
        await shaky.requeue("billing", [message.id])


async def test_publishing_is_not_repeated_after_its_dedupe_window(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    """The engine would take the repetition for a new message."""
    cut = proxy.cut_at(b"order-7", Moment.AFTER)
    with pytest.raises(errors.OutcomeUnknown):
        await shaky.publish(
            "orders", 1, dedupe_key="order-7", dedupe_window=timedelta(milliseconds=1)
        )
    assert cut.is_set()
    assert published(db) == 1


async def test_many_are_not_repeated_after_their_dedupe_window(
    shaky: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    cut = proxy.cut_at(b"order-7", Moment.AFTER)
    with pytest.raises(errors.OutcomeUnknown):
        await shaky.publish_many(
            "orders", [1], dedupe_keys=["order-7"], dedupe_window=timedelta(milliseconds=1)
        )
    assert cut.is_set()
    assert published(db) == 1


async def test_transaction_with_a_failed_statement_says_that_nothing_was_committed(
    shaky: Client, db: psycopg.Connection[Any]
) -> None:
    async def work() -> None:
        async with shaky.transaction() as connection:
            await shaky.publish("orders", 1, connection=connection)
            with pytest.raises(errors.UnknownQueue):
                await shaky.ack_many("no such queue", [1], "token", connection=connection)

    with pytest.raises(errors.TransactionAborted, match="nothing of the transaction"):
        await work()
    assert published(db) == 0
    # The connection is as good as new.
    assert await shaky.publish("orders", 2)
    async with shaky.transaction() as connection:
        await shaky.publish("orders", 3, connection=connection)
    assert published(db) == 2


async def test_failed_statement_in_a_savepoint_spoils_nothing(
    shaky: Client, db: psycopg.Connection[Any]
) -> None:
    async with shaky.transaction() as connection:
        await shaky.publish("orders", 1, connection=connection)
        with pytest.raises(errors.UnknownQueue):
            async with connection.transaction():
                await shaky.ack_many("no such queue", [1], "token", connection=connection)
    assert published(db) == 1
