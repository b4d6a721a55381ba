"""Behind pgbouncer in transaction mode; the conformance suite runs through it as a whole."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.tasks import NewTask, open_store
from penstock.tasks.stores.postgres_store import PostgresTaskStore
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.tasks.backends import Pooled

SOON = timedelta(seconds=20)


@pytest.fixture
async def dsns(pooled: Pooled) -> AsyncIterator[tuple[str, str]]:
    """A database with the task tables: by a direct connection, and through the pooler."""
    place = pooled.create()
    direct = pooled.server.dsn(place.name)
    store = open_store(direct)
    try:
        await store.create_tables()
    finally:
        await store.close()
    yield direct, place.dsn
    pooled.drop(place)


async def test_a_store_notices_the_pooler_and_does_not_listen(dsns: tuple[str, str]) -> None:
    direct, pooled = dsns
    async with PostgresTaskStore(direct) as near, PostgresTaskStore(pooled) as far:
        assert (near.wakes, far.wakes) == (True, False)
        assert not await far.wait(timedelta(0))


async def test_an_enqueue_through_the_pooler_wakes_a_store_that_listens(
    dsns: tuple[str, str],
) -> None:
    direct, through = dsns
    async with PostgresTaskStore(direct) as near, PostgresTaskStore(through) as far:
        # The first wait only begins to listen, and says: look again.
        assert await near.wait(SOON)
        waiting = asyncio.create_task(near.wait(SOON))
        await eventually_async(lambda: _waiting(direct) == 1)
        await far.insert(NewTask("mail"))
        assert await waiting


def _waiting(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "select count(*) from mq_task_waiting where until > now() at time zone 'utc'"
        ).fetchone()
        assert row is not None
        found: int = row[0]
        return found
