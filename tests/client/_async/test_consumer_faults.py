"""Consumers while connections break: they go on, and nothing that was published is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import errors
from penstock.client._async.client import connect
from penstock.postgres._async.listener import Listener
from penstock.postgres.session import ListenerTimes, Reach
from tests.fixtures.patience import eventually_async
from tests.fixtures.proxy import Moment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.client._async.client import Client
    from penstock.client._async.consumer import Consumer
    from tests.fixtures.proxy import Proxy

LONG = 120.0
HOUR = timedelta(hours=1)
QUICK = ListenerTimes(heartbeat=0.1, patience=0.3, first_delay=0.01, longest_delay=0.05)

Session = psycopg.Connection[Any]


@pytest.fixture
async def mq(proxy: Proxy, db: Session) -> AsyncIterator[Client]:
    """A client behind the proxy."""
    db.execute("select penstock.create_queue('billing', 'orders')")
    async with connect(proxy.dsn) as client:
        client._listener = Listener(client.database, QUICK)
        yield client


def publish(db: Session, number: int) -> None:
    """On a connection of its own, that nobody disturbs."""
    db.execute("select penstock.publish_message('orders', to_jsonb(%s::int))", (number,))


async def next_of(consumer: Consumer[Any]) -> int:
    message = await consumer.get(LONG)
    assert message is not None
    await message.ack()
    number: int = message.payload
    return number


async def idle(consumer: Consumer[Any]) -> None:
    assert await consumer.get(0.01) is None
    await eventually_async(lambda: consumer._feeder._looks > 0)


async def test_consumer_survives_the_end_of_every_session(mq: Client, db: Session) -> None:
    async with mq.consume("billing") as consumer:
        for number in range(5):
            await idle(consumer)
            db.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            publish(db, number)
            assert await next_of(consumer) == number


async def test_sleeper_whose_line_broke_looks_when_it_is_back(
    mq: Client, db: Session, proxy: Proxy
) -> None:
    async with mq.consume("billing", mode="listen") as consumer:
        await idle(consumer)
        await eventually_async(lambda: consumer._feeder._watch.reach is Reach.HEARING)
        proxy.refusing = True
        proxy.cut()
        publish(db, 1)
        proxy.heal()
        assert await next_of(consumer) == 1


@pytest.mark.parametrize("mode", ["listen", "hybrid"])
async def test_half_open_network_is_noticed_by_the_heartbeat_for_every_connection(
    proxy: Proxy, db: Session, mode: str
) -> None:
    """Calls may take an hour here, so only the listener's heartbeat can end a claim's wait."""
    db.execute("select penstock.create_queue('billing', 'orders')")
    async with connect(proxy.dsn, call_timeout=HOUR) as mq:
        mq._listener = Listener(mq.database, QUICK)
        async with mq.consume("billing", mode=mode) as consumer:
            await idle(consumer)
            await eventually_async(lambda: consumer._feeder._watch.reach is Reach.HEARING)
            proxy.half_open()
            publish(db, 1)
            assert await next_of(consumer) == 1
            assert await mq.publish("orders", 2)
            assert await next_of(consumer) == 2


@pytest.mark.parametrize("moment", Moment)
async def test_claim_that_is_cut_off_is_made_again(
    mq: Client, db: Session, proxy: Proxy, moment: Moment
) -> None:
    short = timedelta(seconds=1)
    async with mq.consume("billing", claim_for=short) as consumer:
        await idle(consumer)
        # Its name is sent with the first claims only, until they are prepared; its token always.
        cut = proxy.cut_at(consumer._feeder._token.encode(), moment)
        publish(db, 1)
        assert await next_of(consumer) == 1
        assert cut.is_set()


async def test_consumer_gives_up_when_it_was_told_to(proxy: Proxy, db: Session) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    hurried = timedelta(seconds=1)
    async with (
        connect(proxy.dsn, retry_for=hurried, connect_timeout=hurried) as mq,
        mq.consume("billing", mode="poll", give_up_after=1) as consumer,
    ):
        await idle(consumer)
        proxy.refusing = True
        proxy.cut()
        consumer._feeder._watch.wake()
        with pytest.raises(errors.DatabaseUnavailable):
            await consumer.get(LONG)
        proxy.heal()


async def test_consumer_goes_on_when_the_database_comes_back(proxy: Proxy, db: Session) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    hurried = timedelta(seconds=1)
    async with (
        connect(proxy.dsn, retry_for=hurried, connect_timeout=hurried) as mq,
        mq.consume("billing") as consumer,
    ):
        await idle(consumer)
        proxy.refusing = True
        proxy.cut()
        await eventually_async(lambda: consumer._feeder._failures > 0)
        publish(db, 1)
        proxy.heal()
        # Not acknowledged: of a client told to give up after a second, while its pool still rests
        # between two attempts to connect, nothing is promised about that.
        message = await consumer.get(LONG)
        assert message is not None
        assert message.payload == 1
