"""A commit that waits for a synchronous standby, and whose wait is cut short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from penstock import errors
from penstock.client._async.client import connect
from penstock.postgres._async.concurrency import Background
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from tests.fixtures.cluster import Server
    from tests.fixtures.databases import Database

CANCEL = (
    "select pg_cancel_backend(pid) from pg_stat_activity "
    "where datname = current_database() and wait_event = 'SyncRep'"
)


@pytest.fixture
def absent_standby(server: Server) -> Iterator[None]:
    """Commits that wait for the standby, which never comes, wait for ever."""
    server.administer(
        "alter system set synchronous_standby_names = 'nobody'", "select pg_reload_conf()"
    )
    yield
    server.administer("alter system reset synchronous_standby_names", "select pg_reload_conf()")


@pytest.mark.usefixtures("absent_standby")
@pytest.mark.parametrize("way", ["call", "transaction"])
async def test_a_commit_that_no_standby_confirmed_is_not_called_done(
    database: Database, db: psycopg.Connection[Any], way: str
) -> None:
    db.execute("select penstock.create_queue('billing', 'orders')")
    dsn = make_conninfo(database.dsn, options="-c synchronous_commit=on")
    told: list[Exception] = []

    async def publish() -> None:
        async with connect(dsn) as mq:
            try:
                if way == "call":
                    await mq.publish("orders", 1, dedupe_key="k")
                else:
                    async with mq.transaction() as connection:
                        await mq.publish("orders", 1, connection=connection)
            except errors.OutcomeUnknown as unknown:
                told.append(unknown)

    publishing = Background(publish, "publishing")
    publishing.start()
    await eventually_async(lambda: db.execute(CANCEL).fetchall())
    await publishing.stop(60)
    assert [str(each) for each in told] != []
    assert "standby" in str(told[0])
    assert db.execute("select count(*) from penstock.messages").fetchone() == (1,)
