"""A server that does not answer: nobody waits for ever, and nobody pretends to know."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import errors
from penstock.client import calls
from penstock.client._async.client import connect
from penstock.client.values import nothing
from penstock.postgres._async import connections as connection_module
from tests.fixtures.patience import eventually_async
from tests.fixtures.proxy import Way

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from penstock import Client
    from tests.fixtures.databases import Connect, Database
    from tests.fixtures.proxy import Proxy

SHORT = timedelta(seconds=0.3)
ONCE = timedelta(0)
SLEEP: calls.Call[None] = calls.Call("select pg_sleep(0.6)", (), nothing)
LONG_SLEEP: calls.Call[None] = calls.Call("select pg_sleep(0.6)", (), nothing, lasting=True)


@pytest.fixture
async def mq(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client that tries once, and not for long, with a queue "billing" of "orders"."""
    monkeypatch.setattr(connection_module, "CANCEL_SECONDS", 0.2)
    async with connect(proxy.dsn, call_timeout=SHORT, retry_for=ONCE) as client:
        await client.create_queue("billing", topic="orders")
        yield client
        proxy.heal()
        proxy.cut()


def published(db: psycopg.Connection[Any]) -> int:
    row = db.execute("select count(*) from penstock.messages").fetchone()
    assert row is not None
    found: int = row[0]
    return found


async def test_a_publish_that_nobody_answers_has_an_unknown_outcome(
    mq: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    proxy.swallowed = Way.TO_CLIENT
    with pytest.raises(errors.OutcomeUnknown, match=r"did not answer within 0\.3 s"):
        await mq.publish("orders", 1)
    await eventually_async(lambda: published(db) == 1)


async def test_a_commit_that_nobody_answers_has_an_unknown_outcome(
    mq: Client, proxy: Proxy, db: psycopg.Connection[Any]
) -> None:
    async def publish() -> None:
        async with mq.transaction() as connection:
            await mq.publish("orders", 1, connection=connection)
            proxy.swallowed = Way.TO_CLIENT

    with pytest.raises(errors.OutcomeUnknown, match="did not answer"):
        await publish()
    await eventually_async(lambda: published(db) == 1)


async def test_what_changes_nothing_may_be_asked_again(mq: Client, proxy: Proxy) -> None:
    proxy.swallowed = Way.BOTH
    with pytest.raises(errors.CallTimeout, match="repeated safely"):
        await mq.queue_statistics("billing")


async def test_a_call_on_a_dead_line_goes_on_with_another(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "CANCEL_SECONDS", 0.2)
    async with connect(proxy.dsn, call_timeout=SHORT) as patient:
        await patient.create_queue("billing", topic="orders")
        await patient.publish("orders", 1, dedupe_key="a")
        await patient.claim("billing")
        proxy.half_open()
        await patient.publish("orders", 2, dedupe_key="b")
        assert [each.payload for each in await patient.claim("billing")] == [2]


async def test_what_the_server_has_given_up_is_known_to_be_undone(
    mq: Client, db: psycopg.Connection[Any], connect: Connect
) -> None:
    # Publishers of one dedupe key wait for each other: here, for too long.
    first = connect(autocommit=False)
    first.execute("select penstock.publish_message('orders', '1', dedupe_key => 'k')")
    with pytest.raises(errors.CallTimeout, match="nothing was changed"):
        await mq.publish("orders", 2, dedupe_key="k")
    first.rollback()
    assert published(db) == 0
    await mq.publish("orders", 3, dedupe_key="k")
    assert published(db) == 1


async def test_a_call_in_a_transaction_has_the_same_limit(mq: Client, connect: Connect) -> None:
    first = connect(autocommit=False)
    first.execute("select penstock.publish_message('orders', '1', dedupe_key => 'k')")
    with pytest.raises(errors.CallTimeout, match="begin it again"):
        async with mq.transaction() as connection:
            await mq.publish("orders", 2, dedupe_key="k", connection=connection)
    first.rollback()


async def test_statements_of_the_caller_may_take_their_time(mq: Client) -> None:
    async with mq.transaction() as connection:
        await connection.execute("select pg_sleep(0.6)")


async def test_a_transaction_on_a_dead_line_ends_with_the_caller_s_own_error(
    mq: Client, proxy: Proxy
) -> None:
    async def fail() -> None:
        async with mq.transaction() as connection:
            await connection.execute("select 1")
            proxy.swallowed = Way.BOTH
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_a_call_that_grows_with_the_data_may_take_longer(mq: Client) -> None:
    await mq.run(LONG_SLEEP)
    with pytest.raises(errors.CallTimeout):
        await mq.run(SLEEP)


async def test_opening_has_an_end_too(database: Database, db: psycopg.Connection[Any]) -> None:
    db.execute(
        "create or replace function penstock.schema_version() returns int "
        "language sql volatile as 'select 1 from pg_sleep(60)'"
    )
    with pytest.raises(errors.DatabaseUnavailable, match="did not answer"):
        async with connect(database.dsn, call_timeout=SHORT, retry_for=ONCE):
            pass
