"""A reserve reads one end of an index, whatever waits, is delayed, leased or done behind it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.tasks import NewTask, Policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.tasks.store import TaskStore
    from tests.tasks.backends import Place

ROWS = 4000
POLICIES = {
    "plain": Policy(),
    "turns": Policy(fair=True),
    "caps": Policy(running_per_tenant=1000, running_per_topic=1000),
    "ageing": Policy(ageing=timedelta(hours=1)),
}


def run(place: Place, *statements: str) -> list[Any]:
    return place.backend.run(place, *statements)  # type: ignore[attr-defined]


@pytest.fixture
async def backlog(store: TaskStore) -> TaskStore:
    """Many that wait, many that are delayed and stand in front by priority, some done."""
    tenants = [f"t{number % 50}" for number in range(ROWS)]
    await store.insert_many([NewTask("mail", tenant_id=each) for each in tenants])
    hour = timedelta(hours=1)
    await store.insert_many([NewTask("mail", priority=40, delay=hour) for _ in range(ROWS)])
    await store.insert_many([NewTask("print", priority=40) for _ in range(ROWS)])
    for task in await store.reserve("w", topics=["mail"], limit=100):
        await store.ack(task.lease)
    return store


@pytest.mark.backends("mariadb")
@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
async def test_a_reserve_touches_few_rows_on_mariadb(
    backlog: TaskStore, place: Place, policy: Policy
):
    run(place, "analyze table mq_tasks")
    before = rows_read(place)
    assert len(await backlog.reserve("w", topics=["mail"], limit=10, policy=policy)) == 10
    # A few for each task taken, and for each tenant in its turn; not thousands.
    assert rows_read(place) - before < 800


def rows_read(place: Place) -> int:
    """Rows and index entries that the whole server has read since it was started."""
    asked = (
        "select sum(variable_value) from information_schema.global_status "
        "where variable_name in ('handler_read_first', 'handler_read_key', 'handler_read_next', "
        "'handler_read_prev', 'handler_read_rnd', 'handler_read_rnd_next')"
    )
    return int(run(place, asked)[0][0])


@pytest.mark.backends("pg")
@pytest.mark.parametrize("name", ["look", "take", "heads", "heads_of_tenant", "next_tenant"])
async def test_a_reserve_scans_no_table_and_sorts_no_backlog_on_postgresql(
    backlog: TaskStore, place: Place, name: str
):
    run(place, "analyze mq_tasks")
    now = (await backlog.now()).replace(tzinfo=None)
    parameters = {"shift": timedelta(0), "batch": 200, "topics": ["mail"], "now": now, "until": now}
    parameters |= {"owner": "w", "limit": 10, "window": 110, "tenant_id": "t1", "after": "t1"}
    sql = backlog._dialect[name]  # type: ignore[attr-defined]
    with psycopg.connect(place.dsn) as connection:
        asked = f"explain (analyze, format json) {sql}".encode()
        [[plan]] = connection.execute(asked, parameters).fetchall()
        connection.rollback()
    plans = list(nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
    scans = [node for node in plans if node.get("Relation Name") == "mq_tasks"]
    assert scans
    assert all(node["Node Type"] != "Seq Scan" for node in scans)
    assert max(node["Actual Rows"] for node in scans) <= 200
    assert max(node.get("Rows Removed by Filter", 0) for node in scans) <= 10


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)
