"""SQLAlchemy: messages are part of the session's transaction, sync and async, on every driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from penstock.integrations import sqlalchemy as outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from sqlalchemy import Engine

    from tests.fixtures.databases import Database


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]


outbox.announce(
    Order,
    "announcements",
    lambda order: {"order": order.id},
    on=("insert", "delete"),
    key=lambda order: order.customer,
)


def url(database: Database, driver: str) -> str:
    return f"postgresql+{driver}://penstock@127.0.0.1:{database.server.port}/{database.name}"


@pytest.fixture
def engine(database: Database, db: psycopg.Connection[Any]) -> Iterator[Engine]:
    db.execute("select penstock.create_queue('orders'), penstock.create_queue('announcements')")
    made = create_engine(url(database, "psycopg"))
    Base.metadata.create_all(made)
    yield made
    made.dispose()


def published(db: psycopg.Connection[Any], queue: str = "orders") -> list[Any]:
    query = "select payload from penstock.browse_messages(%s) order by message_id"
    return [payload for (payload,) in db.execute(query, (queue,))]


def test_a_message_exists_when_the_transaction_commits(
    engine: Engine, db: psycopg.Connection[Any]
) -> None:
    with Session(engine) as session, session.begin():
        session.add(Order(id=7, customer="ada"))
        assert outbox.publish(session, "orders", {"order": 7}, key="ada", priority=3) > 0
        assert published(db) == []
    assert published(db) == [{"order": 7}]


def test_a_rollback_takes_the_message_with_it(engine: Engine, db: psycopg.Connection[Any]) -> None:
    with Session(engine) as session:
        outbox.publish(session, "orders", {"order": 7})
        session.rollback()
        outbox.publish(session, "orders", {"order": 8})
        savepoint = session.begin_nested()
        outbox.publish(session, "orders", {"order": 9})
        savepoint.rollback()
        session.commit()
    assert published(db) == [{"order": 8}]


def test_many_go_in_one_statement_on_a_core_connection(
    engine: Engine, db: psycopg.Connection[Any]
) -> None:
    with engine.begin() as connection:
        ids = outbox.publish_many(connection, "orders", [{"n": 1}, {"n": 2}], keys=["a", "b"])
    assert len(ids) == 2
    assert published(db) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_async_sessions_publish_likewise(
    driver: str, database: Database, engine: Engine, db: psycopg.Connection[Any]
) -> None:
    made = create_async_engine(url(database, driver))
    try:
        async with AsyncSession(made) as session:
            await outbox.publish_async(session, "orders", {"order": 7}, headers={"a": 1})
            await session.rollback()
            await outbox.publish_async(session, "orders", {"order": 8}, priority=1)
            await outbox.publish_many_async(session, "orders", [{"order": 9}])
            await session.commit()
    finally:
        await made.dispose()
    assert sorted(each["order"] for each in published(db)) == [8, 9]


def test_rows_are_announced_in_the_flush_that_writes_them(
    engine: Engine, db: psycopg.Connection[Any]
) -> None:
    with Session(engine) as session:
        order = Order(id=7, customer="ada")
        session.add(order)
        session.flush()
        session.rollback()
        session.add(Order(id=8, customer="ada"))
        session.commit()
        session.delete(session.get_one(Order, 8))
        session.commit()
    assert published(db, "announcements") == [{"order": 8}, {"order": 8}]
    keys = db.execute("select distinct key from penstock.browse_messages('announcements')")
    assert keys.fetchall() == [("ada",)]


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_rows_of_async_sessions_are_announced_too(
    driver: str, database: Database, engine: Engine, db: psycopg.Connection[Any]
) -> None:
    made = create_async_engine(url(database, driver))
    try:
        async with AsyncSession(made) as session:
            session.add(Order(id=7, customer="ada"))
            await session.commit()
    finally:
        await made.dispose()
    assert published(db, "announcements") == [{"order": 7}]
