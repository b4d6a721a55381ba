"""The pytest plugin, used as a project would use it: in a test session of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from penstock.testing import Clock
    from tests.fixtures.databases import Database

pytest_plugins = ["pytester"]

PROJECT = """
import psycopg
import pytest

seen = []

@pytest.mark.parametrize("round", [1, 2])
def test_each_test_has_a_database_of_its_own(penstock_dsn, round):
    with psycopg.connect(penstock_dsn) as db:
        seen.append(db.info.dbname)
        assert db.execute("select count(*) from penstock.list_topics()").fetchone() == (0,)
        db.execute("select penstock.create_topic('orders')")
    assert len(seen) == len(set(seen)) == round

def test_the_clock_moves(penstock_dsn, penstock_clock):
    from datetime import timedelta
    before = penstock_clock.now()
    penstock_clock.advance(timedelta(days=1), seconds=1)
    assert penstock_clock.now() - before >= timedelta(days=1, seconds=1)

def test_the_sync_client_is_open(penstock_sync_mq):
    penstock_sync_mq.create_queue("orders")
    penstock_sync_mq.publish("orders", {"order": 7})
    (message,) = penstock_sync_mq.claim("orders")
    assert message.payload == {"order": 7}

@pytest.mark.asyncio
async def test_the_async_client_is_open(penstock_mq):
    await penstock_mq.create_queue("orders")
    await penstock_mq.publish("orders", {"order": 7})
    (message,) = await penstock_mq.claim("orders")
    assert await message.ack()
"""


def test_fixtures_work_in_a_project_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(PROJECT)
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.runpytest_subprocess("-W", "error").assert_outcomes(passed=5)


def test_a_server_of_the_user_s_own_is_used_and_left_clean(
    pytester: pytest.Pytester, database: Database
) -> None:
    pytester.makepyfile(
        f"""
        def test_it_is_on_that_server(penstock_dsn):
            assert "port={database.server.port}" in penstock_dsn.split()
        """
    )
    pytester.runpytest_subprocess("--penstock-dsn", database.dsn).assert_outcomes(passed=1)
    query = "select datname from pg_database where datname like 'penstock_test_%'"
    assert database.psql("-A", "-t", "-c", query).stdout == ""


def test_the_plugin_is_light(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_heavy_was_imported():
            heavy = {"penstock.testing.server", "prometheus_client", "opentelemetry", "pydantic"}
            assert heavy & set(sys.modules) == set()
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_our_own_suite_has_the_fixtures_too(penstock_clock: Clock) -> None:
    before = penstock_clock.now()
    penstock_clock.advance_to(before)
    assert penstock_clock.now() >= before
