"""Health: one value, from the engine's checks and the client's state."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import penstock
from penstock.models import HealthCheck
from penstock.observe.health import health, summary, worker_health

if TYPE_CHECKING:
    from tests.fixtures.databases import Database


async def test_a_fresh_database_is_well(database: Database) -> None:
    async with penstock.connect(database.dsn) as mq:
        found = await health(mq)
    assert found.ok
    assert found.serving
    assert found.problems == ()
    assert {"connection", "schema", "log"} <= {check.name for check in found.checks}


async def test_a_dead_letter_is_a_problem_but_no_reason_to_restart(database: Database) -> None:
    async with penstock.connect(database.dsn) as mq:
        await mq.create_queue("billing")
        await mq.publish("billing", {})
        (message,) = await mq.claim("billing")
        await message.bury("hopeless")
        found = await health(mq)
    assert not found.ok
    assert found.serving
    assert [check.name for check in found.problems] == ["dead letters"]


async def test_a_database_that_does_not_answer_is_an_answer(database: Database) -> None:
    async with penstock.connect(database.dsn, retry_for=timedelta(milliseconds=10)) as mq:
        await mq.health()
        database.server.administer(
            f"alter database {database.name} allow_connections false",
            f"select pg_terminate_backend(pid) from pg_stat_activity "
            f"where datname = '{database.name}'",
        )
        found = await health(mq)
    assert not found.serving
    assert [check.name for check in found.problems] == ["connection"]


async def test_a_worker_that_does_not_run_is_not_serving(database: Database) -> None:
    async with penstock.connect(database.dsn) as mq:
        worker = penstock.Worker(mq)

        @worker.handler("billing")
        async def bill(message: Any) -> None: ...

        found = await worker_health(worker)
    assert [check.name for check in found.problems] == ["worker"]


def test_the_engine_s_order_of_checks_is_kept() -> None:
    checks = [HealthCheck(name, ok=True, detail="", advice=None) for name in ("b", "a")]
    assert [check.name for check in summary(checks).checks] == ["b", "a"]
