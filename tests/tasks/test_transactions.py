"""On PostgreSQL: enqueuing in the caller's transaction, and being woken by it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from penstock.tasks import DuplicateTask, NewTask, Stats
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore
    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg")
SOON = timedelta(seconds=20)


async def test_a_task_exists_when_the_callers_transaction_commits(store: TaskStore, place: Place):
    async with await psycopg.AsyncConnection.connect(place.dsn) as connection:
        await store.insert(NewTask("mail", meta={"a": 1}), connection=connection)
        assert await store.stats() == Stats()
        await connection.commit()
        assert await store.stats() == Stats(queued=1)
        await store.insert_many([NewTask("mail"), NewTask("mail")], connection=connection)
        await connection.rollback()
    assert await store.stats() == Stats(queued=1)


async def test_a_blocking_connection_does_as_well(store: TaskStore, place: Place):
    with psycopg.connect(place.dsn) as connection:
        await store.insert(NewTask("mail"), connection=connection)
    assert await store.stats() == Stats(queued=1)


async def test_an_asyncpg_connection_does_as_well(store: TaskStore, place: Place):
    parts = psycopg.conninfo.conninfo_to_dict(place.dsn)
    connection = await asyncpg.connect(
        host=str(parts["host"]),
        port=int(parts["port"]),
        user=str(parts["user"]),
        database=str(parts["dbname"]),
    )
    try:
        async with connection.transaction():
            task = NewTask("mail", b"\x00\xff", dedupe_key="k", delay=timedelta(seconds=9))
            await store.insert(task, connection=connection)
            assert await store.stats() == Stats()
    finally:
        await connection.close()
    stored = await store.get(task.id)
    assert stored is not None
    assert stored.payload == b"\x00\xff"


async def test_a_sqlalchemy_connection_does_as_well(store: TaskStore, place: Place):
    engine = create_async_engine(
        "postgresql+psycopg://",
        connect_args=psycopg.conninfo.conninfo_to_dict(place.dsn),
        poolclass=sqlalchemy.NullPool,
    )
    async with engine.begin() as connection:
        await store.insert(NewTask("mail"), connection=connection)
    await engine.dispose()
    assert await store.stats() == Stats(queued=1)


async def test_a_duplicate_in_the_callers_transaction_does_not_spoil_it(
    store: TaskStore, place: Place
):
    first = await store.insert(NewTask("mail", dedupe_key="k"))
    async with await psycopg.AsyncConnection.connect(place.dsn) as connection:
        with pytest.raises(DuplicateTask) as caught:
            await store.insert(NewTask("mail", dedupe_key="k"), connection=connection)
        assert caught.value.task_id == first
        await store.insert(NewTask("mail"), connection=connection)
    assert await store.stats() == Stats(queued=2)


async def test_a_store_that_waits_is_woken_by_an_enqueue(store: TaskStore, place: Place):
    # The first wait only begins to listen, and says: look again.
    assert await store.wait(SOON)
    for _ in range(2):
        waiting = asyncio.create_task(store.wait(SOON))
        await until_a_store_waits(place)
        await store.insert(NewTask("mail"))
        assert await asyncio.wait_for(waiting, SOON.total_seconds() / 2)


async def test_an_enqueue_notifies_only_if_a_store_waits(store: TaskStore, place: Place):
    async with await psycopg.AsyncConnection.connect(place.dsn, autocommit=True) as ear:
        channel: str = store._channel  # type: ignore[attr-defined]
        await ear.execute(f"listen {channel}")
        await store.insert(NewTask("mail"))
        await ear.execute("select 1")
        heard = [each async for each in ear.notifies(timeout=0, stop_after=1)]
    assert heard == []


async def test_a_lost_listener_listens_again(store: TaskStore, place: Place):
    assert await store.wait(SOON)
    waiting = asyncio.create_task(store.wait(SOON))
    await until_a_store_waits(place)
    place.backend.run(  # type: ignore[attr-defined]
        place,
        "select pg_terminate_backend(pid) from pg_stat_activity "
        "where application_name = 'penstock tasks' and query like 'listen%'",
    )
    assert await asyncio.wait_for(waiting, SOON.total_seconds() / 2)
    assert await store.wait(SOON)


async def until_a_store_waits(place: Place) -> None:
    """A store has registered and listens, so a notification would reach it."""
    asked = (
        "select 1 from mq_task_waiting, pg_stat_activity "
        "where application_name = 'penstock tasks' and query like 'listen%' and state = 'idle'"
    )
    await eventually_async(lambda: place.backend.run(place, asked))  # type: ignore[attr-defined]
