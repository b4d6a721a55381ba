"""Housekeeping with the usual server settings: many queues, and a publication of all tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from penstock.testing.server import Server, cluster, end, start
from tests.concurrency.sessions import ack, call, claim, create, publish, publish_many, value
from tests.fixtures import clock
from tests.fixtures.maintenance import maintain

if TYPE_CHECKING:
    from collections.abc import Iterator

    Session = psycopg.Connection[Any]

QUEUES = 20_000
SETTINGS = {
    "max_connections": "100",
    "max_locks_per_transaction": "64",
    "max_prepared_transactions": "0",
    "wal_level": "logical",
}


@pytest.fixture
def db(server: Server) -> Iterator[Session]:
    """A session on a server of its own, with as few locks as a server has by default."""
    with cluster(server.binaries) as (programs, owner, folder):
        process, port = start(programs, owner, folder, settings=SETTINGS)
        try:
            private = Server("limits", programs, folder, port, process.pid)
            with psycopg.connect(private.dsn("postgres"), autocommit=True) as conn:
                schema.install(conn)
                yield conn
        finally:
            end(process)


def test_housekeeping_works_with_20_000_queues_that_have_a_retention(db: Session) -> None:
    create(db, name="model", retention="1 hour")
    # Copies of a queue, in a topic where nothing is over its time; 30 of them where something is.
    call(db, "create_topic", "quiet")
    db.execute(
        "insert into penstock_data.queues (name, topic_id, max_delivery_attempts, ordering,"
        " retry_base, retry_cap, retention, notify)"
        " select 'copy ' || n, t.id, q.max_delivery_attempts, q.ordering, q.retry_base,"
        " q.retry_cap, q.retention, q.notify"
        " from penstock_data.queues q, generate_series(1, %s) n, penstock_data.topics t"
        " where t.name = case when n %% 700 = 0 then 'q' else 'quiet' end",
        (QUEUES,),
    )
    db.execute(
        "insert into penstock_data.positions"
        " select (jsonb_populate_record(p, jsonb_build_object('queue_id', q.id))).*"
        " from penstock_data.queues q, penstock_data.positions p where q.id <> p.queue_id"
    )
    assert value(db, "select count(*) from penstock_data.positions") == QUEUES + 1
    publish(db)
    publish_many(db, 2)
    clock.advance(db, 3000)
    call(db, "publish_message", "quiet", "{}")
    clock.advance(db, 1000)
    concerned = 1 + QUEUES // 700
    assert maintain(db)["messages lapsed"] == 3 * concerned
    assert maintain(db)["messages lapsed"] == 0
    errors = "select count(*) from penstock.maintain() where error is not null"
    assert value(db, errors) == 0
    assert len(claim(db, name="copy 1")) == 1


def test_housekeeping_works_with_a_publication_of_all_tables(db: Session) -> None:
    db.execute("create publication everything for all tables")
    call(db, "configure", "segment_bytes", "1")
    create(db)
    ids = publish_many(db, 3)
    assert claim(db, seconds=600) == ids
    assert maintain(db)["segments emptied"] >= 1
    assert value(db, "select count(*) from penstock_data.messages_0") == 3
    assert ack(db, ids) == ids
    assert maintain(db)["kept messages dropped"] == 3
    clock.advance(db, 8 * 86_400)
    assert maintain(db)["segments emptied"] >= 1
    call(db, "purge_all_messages")
    failing = "select count(*) from penstock.maintenance_steps() where failing_since is not null"
    assert value(db, failing) == 0


def test_every_table_tells_changes_to_a_publication(db: Session) -> None:
    call(db, "configure", "segment_bytes", "1")
    create(db)
    for _ in range(5):
        publish(db)
        maintain(db)
    without = """
        select array_agg(c.relname) from pg_class c
        where c.relnamespace::regnamespace::text in ('penstock_data', 'pgqs_data', 'pgqs')
          and c.relkind = 'r' and c.relpersistence = 'p' and c.relreplident <> 'f'
          and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
    """
    assert value(db, "select to_regclass('penstock_data.messages_4') is not null")
    assert value(db, without) is None
