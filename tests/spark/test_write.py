"""Writing to topics: columns, payloads, exactly once and at least once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

    from tests.spark.jobs import Jobs

LOG = "select key, payload, headers, priority, tenant_id, correlation_id, topic from penstock.log"


def published(db: psycopg.Connection[Any], topic: str) -> list[Any]:
    found = db.execute("select payload from penstock.log where topic = %s order by id", (topic,))
    return [payload for (payload,) in found]


@pytest.fixture(autouse=True)
def topics(db: psycopg.Connection[Any]) -> None:
    for name in ("orders", "parcels"):
        db.execute("select penstock.create_topic(%s)", (name,))


def test_every_column_reaches_the_message(jobs: Jobs, db: psycopg.Connection[Any]) -> None:
    frame = jobs.rows(
        1,
        "'k1' as key",
        """'{"order": 7}' as value""",
        """'{"region": "eu"}' as headers""",
        "5 as priority",
        "'acme' as tenant_id",
        "'c-1' as correlation_id",
        "timestamp '2099-01-01 00:00:00' as expires_at",
        "current_timestamp() + interval 1 hour as deliver_after",
    )
    jobs.write(frame, topic="orders")
    assert db.execute(LOG).fetchall() == [
        ("k1", {"order": 7}, {"region": "eu"}, 5, "acme", "c-1", "orders")
    ]
    (late, expiry) = db.execute(
        "select deliver_after > now() + interval '50 minutes', expires_at from penstock.log"
    ).fetchone()
    assert late
    assert expiry.year == 2099


def test_topics_come_from_a_column_and_the_option_goes_before(
    jobs: Jobs, db: psycopg.Connection[Any]
) -> None:
    frame = jobs.rows(
        4, "if(n % 2 = 0, 'orders', 'parcels') as topic", "to_json(struct(n)) as value"
    )
    jobs.write(frame)
    assert sorted(each["n"] for each in published(db, "orders")) == [2, 4]
    assert sorted(each["n"] for each in published(db, "parcels")) == [1, 3]
    jobs.write(frame, topic="orders")
    assert len(published(db, "orders")) == 6


def test_payloads_of_every_shape(jobs: Jobs, db: psycopg.Connection[Any]) -> None:
    shapes = {
        """parse_json('{"v": 1}') as value""": {"v": 1},
        "named_struct('n', n, 'at', timestamp '2026-01-02 03:04:05', 'ok', true) as value": {
            "n": 1,
            "at": "2026-01-02T03:04:05+00:00",
            "ok": True,
        },
        "map('a', 1) as value": {"a": 1},
        "array(n, 2) as value": [1, 2],
        """cast('{"b": 1}' as binary) as payload""": {"b": 1},
    }
    for shape in shapes:
        jobs.write(jobs.rows(1, shape), topic="orders")
    jobs.write(jobs.rows(1, "'not json' as value"), topic="orders", valueFormat="text")
    assert published(db, "orders") == [*shapes.values(), "not json"]


def test_headers_of_every_shape(jobs: Jobs, db: psycopg.Connection[Any]) -> None:
    shapes = [
        "map('region', 'eu') as headers",
        "named_struct('region', 'eu') as headers",
        "array(named_struct('key', 'region', 'value', cast('eu' as binary))) as headers",
    ]
    for shape in shapes:
        jobs.write(jobs.rows(1, "'1' as value", shape), topic="orders")
    found = db.execute("select headers from penstock.log").fetchall()
    assert found == [({"region": "eu"},)] * 3


def test_bad_row_publishes_nothing_and_leaves_nothing_staged(
    jobs: Jobs, db: psycopg.Connection[Any]
) -> None:
    # One task: with others still at work, the stage is left for maintain() to sweep.
    broken = jobs.rows(10, """if(n = 7, '{"broken', '1') as value""").coalesce(1)
    with pytest.raises(Exception, match="invalid input syntax for type json"):
        jobs.write(broken, topic="orders")
    urgent = jobs.rows(10, "'1' as value", "int(n * 1000) as priority").coalesce(1)
    with pytest.raises(Exception, match="priority must be between"):
        jobs.write(urgent, topic="orders")
    assert published(db, "orders") == []
    assert db.execute("select count(*) from penstock_data.stages").fetchone() == (0,)


def test_batch_with_a_number_is_written_once(jobs: Jobs, db: psycopg.Connection[Any]) -> None:
    frame = jobs.rows(10, "to_json(struct(n)) as value")
    for version in (1, 1, 2, 1):
        jobs.write(frame, topic="orders", txnAppId="loader", txnVersion=str(version))
    assert len(published(db, "orders")) == 20
    assert db.execute("select count(*) from penstock_data.stages").fetchone() == (0,)


def test_at_least_once_publishes_from_the_tasks(jobs: Jobs, db: psycopg.Connection[Any]) -> None:
    jobs.write(
        jobs.rows(10, "to_json(struct(n)) as value"), topic="orders", delivery="at-least-once"
    )
    assert sorted(each["n"] for each in published(db, "orders")) == list(range(1, 11))
    assert db.execute("select count(*) from penstock_data.writes").fetchone() == (0,)
    assert db.execute("select count(*) from penstock_data.stages").fetchone() == (0,)


def test_rows_of_a_partition_keep_their_order(jobs: Jobs, db: psycopg.Connection[Any]) -> None:
    jobs.write(jobs.rows(20_000, "to_json(struct(n)) as value").coalesce(1), topic="orders")
    assert [each["n"] for each in published(db, "orders")] == list(range(1, 20_001))


def test_a_read_can_be_written_as_it_is(jobs: Jobs, db: psycopg.Connection[Any]) -> None:
    db.execute(
        "select penstock.publish_message('orders', %s, key => 'k', headers => %s)",
        ('{"n": 1}', '{"a": 1}'),
    )
    jobs.write(jobs.read(subscribe="orders"), topic="parcels")
    assert db.execute(LOG + " where topic = 'parcels'").fetchall() == [
        ("k", {"n": 1}, {"a": 1}, 0, None, None, "parcels")
    ]
