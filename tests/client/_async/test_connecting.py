"""Connecting: what is checked before the first call, and what is said when it does not fit."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import errors
from penstock.client._async.client import connect
from penstock.settings import Settings
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from penstock import Client
    from tests.fixtures.databases import Database
    from tests.fixtures.pgbouncer import Route


OTHERS = (
    "select count(*) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid()"
)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account can reach, as pytest's own can't be by a lent one."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as root:
        Path(root).chmod(0o755)
        yield Path(root) / "data"


async def test_a_database_without_the_engine_says_how_to_install_it(
    empty_database: Database,
) -> None:
    with pytest.raises(errors.NotInstalled, match="penstock init"):
        await connect(empty_database.dsn).open()


@pytest.mark.parametrize(("version", "cure"), [(0, "penstock init"), (99, "upgrade the penstock")])
async def test_an_engine_of_another_version_says_which_side_is_old(
    database: Database, db: psycopg.Connection[Any], version: int, cure: str
) -> None:
    db.execute(
        "create or replace function penstock.schema_version() returns int "
        f"language sql as 'select {version}'"
    )
    with pytest.raises(errors.WrongSchemaVersion, match=cure):
        await connect(database.dsn).open()


async def test_a_server_that_is_not_there_is_told_at_once_and_without_the_password() -> None:
    with pytest.raises(errors.DatabaseUnavailable, match="PENSTOCK_DSN") as caught:
        await connect("postgresql://me:secret@127.0.0.1:1/shop").open()
    assert "secret" not in str(caught.value)


async def test_a_database_that_is_not_there_is_told_at_once(database: Database) -> None:
    with pytest.raises(errors.DatabaseUnavailable, match="no_such_database"):
        await connect(database.server.dsn("no_such_database")).open()


async def test_a_client_that_is_not_open_says_so(database: Database) -> None:
    mq = connect(database.dsn)
    with pytest.raises(errors.DatabaseUnavailable, match="not open"):
        await mq.list_topics()
    with pytest.raises(errors.ClientClosed):  # at once, although other troubles are waited for
        await mq.publish_stream("orders", [1])
    with pytest.raises(errors.ClientClosed):
        await mq.consume("billing", mode="poll").get()
    await mq.open()
    await mq.open()
    assert mq.database.is_open
    await mq.close()
    await mq.close()
    with pytest.raises(errors.DatabaseUnavailable, match="not open"):
        await mq.list_topics()


async def test_a_closed_client_opens_again(database: Database) -> None:
    mq = connect(database.dsn)
    for _ in range(2):
        async with mq:
            assert await mq.list_topics() == []


async def test_settings_are_taken_whole_or_by_name(database: Database) -> None:
    settings = Settings(dsn=database.dsn, application_name="shop")
    async with connect(settings=settings) as mq, mq.transaction() as connection:
        assert connection.info.get_parameters()["application_name"] == "shop"
    async with connect(database.dsn, application_name="till") as mq, mq.transaction() as connection:
        assert connection.info.get_parameters()["application_name"] == "till"
    with pytest.raises(errors.InvalidSetting, match="pool_sise"):
        connect(database.dsn, pool_sise=3)  # type: ignore[call-arg]
    with pytest.raises(errors.InvalidSetting, match="leave out"):
        connect(database.dsn, settings=settings)


async def test_closing_ends_every_connection(
    database: Database, db: psycopg.Connection[Any]
) -> None:
    async with connect(database.dsn) as mq:
        await mq.create_queue("billing", topic="orders")
        await mq.publish("orders", 1)
        await mq.claim("billing")
    # A backend ends a moment after its connection.
    await eventually_async(lambda: db.execute(OTHERS).fetchone() == (0,))


async def test_without_a_dsn_an_embedded_server_is_started_and_its_engine_follows_the_package(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_DSN", raising=False)
    async with connect(data_dir=open_folder) as mq:
        await mq.create_queue("billing", topic="orders")
        await mq.publish("orders", 1)
        assert [each.payload for each in await mq.claim("billing")] == [1]
        async with mq.transaction() as connection:
            # An earlier build of the same version had other functions.
            await connection.execute(
                "drop function penstock.schema_fingerprint(), penstock.list_topics()"
            )
    async with connect(data_dir=open_folder) as mq:
        assert [topic.name for topic in await mq.list_topics()] == ["orders"]


async def test_everything_works_on_every_route(route: Route) -> None:
    async with connect(route.dsn, pooler=route.pooler) as mq:
        await _use(mq)


async def _use(mq: Client) -> None:
    await mq.create_queue("billing", topic="orders")
    for number in range(8):  # more often than it takes to prepare a statement
        await mq.publish("orders", number)
    await mq.publish_stream("orders", range(3))
    async with mq.transaction() as connection:
        await mq.publish("orders", "last", connection=connection)
    for _ in range(12):
        (message,) = await mq.claim("billing")
        await message.extend(timedelta(seconds=5))
        assert await message.ack() is True
    assert message.payload == "last"
    with pytest.raises(errors.NoReply):
        await mq.request("orders", "anyone?", timeout=timedelta(seconds=0.1))
