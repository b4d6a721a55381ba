"""Calls on somebody else's connection: in its transaction, with its fate.

Every kind of connection goes through the same tests: each is wrapped as a `Borrowed`, which opens
it, and ends its transaction one way or the other.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import penstock
import penstock.sync
from penstock import errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.databases import Database


@dataclass(frozen=True, slots=True)
class Borrowed:
    """An open connection of somebody else's, in a transaction."""

    connection: Any
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


def url(database: Database, driver: str) -> sqlalchemy.URL:
    server = database.server
    return sqlalchemy.URL.create(
        f"postgresql+{driver}",
        username="penstock",
        host="127.0.0.1",
        port=server.port,
        database=database.name,
    )


@asynccontextmanager
async def by_psycopg(database: Database) -> AsyncIterator[Borrowed]:
    with psycopg.connect(database.dsn, row_factory=dict_row) as connection:
        yield Borrowed(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def by_async_psycopg(database: Database) -> AsyncIterator[Borrowed]:
    connecting = psycopg.AsyncConnection.connect(database.dsn, row_factory=dict_row)
    async with await connecting as connection:
        yield Borrowed(connection, connection.commit, connection.rollback)


@asynccontextmanager
async def by_asyncpg(database: Database) -> AsyncIterator[Borrowed]:
    connection = await asyncpg.connect(
        host="127.0.0.1", port=database.server.port, user="penstock", database=database.name
    )
    try:
        # Whoever likes JSON as values sets this; it must not come between us and the database.
        await connection.set_type_codec(
            "jsonb", schema="pg_catalog", encoder=lambda value: 1 / 0, decoder=str
        )
        transaction = connection.transaction()
        await transaction.start()
        yield Borrowed(connection, transaction.commit, transaction.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def by_pooled_asyncpg(database: Database) -> AsyncIterator[Borrowed]:
    async with (
        asyncpg.create_pool(
            host="127.0.0.1",
            port=database.server.port,
            user="penstock",
            database=database.name,
            min_size=1,
            max_size=1,
        ) as pool,
        pool.acquire() as connection,
    ):
        transaction = connection.transaction()
        await transaction.start()
        yield Borrowed(connection, transaction.commit, transaction.rollback)


@asynccontextmanager
async def by_sqlalchemy_core(database: Database) -> AsyncIterator[Borrowed]:
    engine = sqlalchemy.create_engine(url(database, "psycopg"))
    with engine.connect() as connection:
        yield Borrowed(connection, connection.commit, connection.rollback)
    engine.dispose()


@asynccontextmanager
async def by_sqlalchemy_session(database: Database) -> AsyncIterator[Borrowed]:
    engine = sqlalchemy.create_engine(url(database, "psycopg"))
    with Session(engine) as session:
        yield Borrowed(session, session.commit, session.rollback)
    engine.dispose()


@asynccontextmanager
async def by_async_sqlalchemy_core(database: Database) -> AsyncIterator[Borrowed]:
    engine = create_async_engine(url(database, "asyncpg"))
    async with engine.connect() as connection:
        yield Borrowed(connection, connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def by_async_sqlalchemy_psycopg(database: Database) -> AsyncIterator[Borrowed]:
    engine = create_async_engine(url(database, "psycopg"))
    async with engine.connect() as connection:
        yield Borrowed(connection, connection.commit, connection.rollback)
    await engine.dispose()


@asynccontextmanager
async def by_async_sqlalchemy_session(database: Database) -> AsyncIterator[Borrowed]:
    engine = create_async_engine(url(database, "asyncpg"))
    async with AsyncSession(engine) as session:
        yield Borrowed(session, session.commit, session.rollback)
    await engine.dispose()


BLOCKING = [by_psycopg, by_sqlalchemy_core, by_sqlalchemy_session]
AWAITED = [
    by_async_psycopg,
    by_asyncpg,
    by_pooled_asyncpg,
    by_async_sqlalchemy_core,
    by_async_sqlalchemy_psycopg,
    by_async_sqlalchemy_session,
]
Opened = "Callable[[Database], AbstractAsyncContextManager[Borrowed]]"


async def settled(found: Any) -> Any:
    """Commits and rollbacks are awaited by some and not by others."""
    return await found if hasattr(found, "__await__") else found


@pytest.fixture
async def mq(database: Database) -> AsyncIterator[penstock.Client]:
    async with penstock.connect(database.dsn) as client:
        await client.create_queue("billing", topic="orders")
        yield client


@pytest.mark.parametrize("opened", [*BLOCKING, *AWAITED])
async def test_what_is_published_there_commits_there(
    mq: penstock.Client, database: Database, opened: Opened
) -> None:
    async with opened(database) as theirs:
        one = await mq.publish(
            "orders", {"n": 1}, headers={"h": [1]}, key="k", connection=theirs.connection
        )
        many = await mq.publish_many(
            "orders",
            [{"n": 2}, None],
            headers=[None, {"h": 2}],
            keys=["a", None],
            connection=theirs.connection,
        )
        assert await mq.claim("billing", count=9) == [], "nobody sees it before the commit"
        await settled(theirs.commit())
    found = await mq.claim("billing", count=9)
    assert [each.id for each in found] == [one, *many]
    assert [each.payload for each in found] == [{"n": 1}, {"n": 2}, None]
    assert [each.headers for each in found] == [{"h": [1]}, {}, {"h": 2}]
    assert [each.key for each in found] == ["k", "a", None]


@pytest.mark.parametrize("opened", [*BLOCKING, *AWAITED])
async def test_what_is_published_there_is_rolled_back_there(
    mq: penstock.Client, database: Database, opened: Opened
) -> None:
    async with opened(database) as theirs:
        await mq.publish("orders", 1, connection=theirs.connection)
        await settled(theirs.rollback())
    assert await mq.claim("billing") == []


@pytest.mark.parametrize("opened", [*BLOCKING, *AWAITED])
async def test_an_ack_there_commits_with_the_work(
    mq: penstock.Client, database: Database, opened: Opened
) -> None:
    await mq.publish_many("orders", [1, 2])
    first, second = await mq.claim("billing", count=2)
    async with opened(database) as theirs:
        assert await first.ack(connection=theirs.connection) is True
        await settled(theirs.rollback())
    async with opened(database) as theirs:
        assert await second.ack(connection=theirs.connection) is True
        await settled(theirs.commit())
    assert await first.ack() is True, "its first ack was rolled back"
    assert await second.ack() is False, "its first ack holds"


@pytest.mark.parametrize("opened", [*BLOCKING, *AWAITED])
async def test_a_refusal_is_the_same_error_on_every_connection(
    mq: penstock.Client, database: Database, opened: Opened
) -> None:
    async with opened(database) as theirs:
        with pytest.raises(errors.UnknownTopic, match="nowhere") as caught:
            await mq.publish("nowhere", 1, connection=theirs.connection)
        await settled(theirs.rollback())
    assert caught.value.code == "PS001"
    assert "create_topic" in str(caught.value.hint)


@pytest.mark.parametrize("opened", BLOCKING)
async def test_the_blocking_client_takes_blocking_connections(
    database: Database, opened: Opened
) -> None:
    with penstock.sync.connect(database.dsn) as mq:
        mq.create_queue("billing", topic="orders")
        async with opened(database) as theirs:
            mq.publish("orders", {"n": 1}, connection=theirs.connection)
            assert mq.claim("billing") == []
            theirs.commit()
        (message,) = mq.claim("billing")
        async with opened(database) as theirs:
            assert message.ack(connection=theirs.connection) is True
            theirs.rollback()
        assert message.ack() is True


@pytest.mark.parametrize("opened", AWAITED)
async def test_the_blocking_client_refuses_what_must_be_awaited(
    database: Database, opened: Opened
) -> None:
    with penstock.sync.connect(database.dsn) as mq:
        mq.create_topic("orders")
        async with opened(database) as theirs:
            with pytest.raises(errors.UnusableConnection, match="awaited"):
                mq.publish("orders", 1, connection=theirs.connection)


async def test_an_engine_is_no_connection(mq: penstock.Client, database: Database) -> None:
    engine = sqlalchemy.create_engine(url(database, "psycopg"))
    with pytest.raises(errors.UnusableConnection, match="not an engine or a pool"):
        await mq.publish("orders", 1, connection=engine)
    engine.dispose()


async def test_another_database_is_refused(mq: penstock.Client) -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as theirs, pytest.raises(errors.UnusableConnection, match="sqlite"):
        await mq.publish("orders", 1, connection=theirs)
    engine.dispose()
