"""Behind pgbouncer in transaction mode: consumers poll, and say so where they can't."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock import errors
from penstock.client._async.client import connect
from penstock.client.consumer_options import Mode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from penstock.client._async.client import Client
    from tests.fixtures.databases import Database
    from tests.fixtures.pgbouncer import Pgbouncer

SHORT = timedelta(seconds=0.02)


@pytest.fixture
async def mq(pgbouncer: Pgbouncer, database: Database) -> AsyncIterator[Client]:
    async with connect(pgbouncer.dsn(database.name), pooler=True) as client:
        await client.create_queue("billing", topic="orders")
        yield client


async def test_hybrid_consumer_polls_without_a_word(
    mq: Client, db: psycopg.Connection[Any]
) -> None:
    async with mq.consume("billing", polling_interval=SHORT) as consumer:
        assert consumer._options.mode is Mode.POLL
        for number in range(20):
            await mq.publish("orders", number)
            message = await consumer.get(60)
            assert message is not None
            assert message.payload == number
            assert await message.ack()
    said = db.execute(
        "select query from pg_stat_activity"
        " where datname = current_database() and query ilike any ('{listen%,%start_waiting%}')"
        " and pid <> pg_backend_pid()"
    )
    assert said.fetchall() == []


async def test_listen_mode_is_refused_with_what_to_do(mq: Client) -> None:
    with pytest.raises(errors.InvalidSetting, match="'hybrid' or 'poll'"):
        mq.consume("billing", mode="listen")


async def test_listen_mode_is_refused_where_the_settings_forgot_the_pooler(
    pgbouncer: Pgbouncer, mq: Client, database: Database
) -> None:
    # Few statements only: without the setting, prepared ones would soon get lost.
    async with connect(pgbouncer.dsn(database.name)) as careless:
        with pytest.raises(errors.InvalidSetting, match="pooler"):
            async for _ in careless.consume("billing", mode="listen"):
                pass


async def test_claims_through_a_pooler_leave_no_setting_behind(
    mq: Client, database: Database, pgbouncer: Pgbouncer
) -> None:
    await mq.publish("orders", 1)
    [message] = await mq.claim("billing")
    await message.ack()
    async with mq.transaction() as connection:
        cursor = await connection.execute(
            "select source from pg_settings where name = 'synchronous_commit'"
        )
        assert await cursor.fetchone() != ("session",)
