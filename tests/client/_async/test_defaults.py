"""Databases with defaults of their own: the sessions set what they need."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import errors
from penstock.client._async.client import connect

if TYPE_CHECKING:
    from tests.fixtures.databases import Database
    from tests.fixtures.pgbouncer import Pgbouncer

Session = psycopg.Connection[Any]
DEFAULTS = {
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "iso_8601",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
}


def set_defaults(db: Session, *names: str) -> None:
    for name in names:
        db.execute(f"alter database {db.info.dbname} set {name} = '{DEFAULTS[name]}'".encode())


async def everything(dsn: str, *, pooler: bool = False) -> None:
    """What reads dates and intervals, and what others must see at once."""
    async with connect(dsn, pooler=pooler) as mq:
        await mq.create_queue("billing", topic="orders", retention=timedelta(hours=1))
        await mq.publish("orders", {"path": "a\\b"}, delay=timedelta(0))
        [info] = await mq.list_queues()
        assert info.retention == timedelta(hours=1)
        [message] = await mq.claim("billing")
        assert message.payload == {"path": "a\\b"}
        assert message.claimed_until > message.published_at
        assert await message.nack(timedelta(0))
        async with mq.consume("billing", claim_for=timedelta(minutes=1)) as consumer:
            message = await consumer.get(60)
            assert message is not None
            assert await message.ack()
        assert await mq.maintain()
        assert await mq.health()
        async with mq.transaction() as connection:
            cursor = await connection.execute("show transaction_isolation")
            assert await cursor.fetchone() == ("read committed",)


@pytest.mark.parametrize("names", [*([name] for name in DEFAULTS), list(DEFAULTS)])
async def test_everything_works(database: Database, db: Session, names: list[str]) -> None:
    set_defaults(db, *names)
    await everything(database.dsn)


async def test_everything_works_behind_a_pooler(
    pgbouncer: Pgbouncer, database: Database, db: Session
) -> None:
    set_defaults(db, "DateStyle", "standard_conforming_strings")
    await everything(pgbouncer.dsn(database.name), pooler=True)


@pytest.mark.parametrize("name", ["default_transaction_isolation", "IntervalStyle"])
async def test_what_a_pooler_can_not_carry_is_refused_with_what_to_do(
    pgbouncer: Pgbouncer, database: Database, db: Session, name: str
) -> None:
    set_defaults(db, name)
    with pytest.raises(errors.InvalidSetting, match="ALTER ROLE"):
        await everything(pgbouncer.dsn(database.name), pooler=True)
