"""Bulk publishing: create_stage, COPY, publish_stage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.sql.refusals import nothing_changes, refused

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


@pytest.fixture(autouse=True)
def queue(mq: Caller) -> None:
    mq("create_queue", "q", "t")


def load(session: psycopg.Connection[Any], columns: str, rows: list[tuple[Any, ...]]) -> None:
    session.execute("select penstock.create_stage()")
    copy_in = f"copy penstock_stage ({columns}) from stdin".encode()
    with session.cursor() as cursor, cursor.copy(copy_in) as copy:
        for row in rows:
            copy.write_row(row)


def test_copied_rows_are_published_in_their_order(mq: Caller) -> None:
    with mq.db.transaction():
        load(mq.db, "payload", [(json.dumps(n),) for n in range(12_000)])
        assert mq("publish_stage", "t") == 12_000
    assert mq.drain("q", batch=5000) == list(range(12_000))


def test_every_property_can_be_copied(mq: Caller) -> None:
    due = mq.at(seconds=-1)
    columns = (
        "payload, headers, key, priority, deliver_after, expires_at, correlation_id, tenant_id"
    )
    row = ('{"a": 1}', '{"h": 2}', "k", 5, due, mq.at(seconds=900), "c", "x")
    with mq.db.transaction():
        load(mq.db, columns, [row, ("2", None, None, None, None, None, None, None)])
        assert mq("publish_stage", "t") == 2
    first, second = mq.consume("q")
    assert (first.payload, first.headers, first.key, first.priority) == ({"a": 1}, {"h": 2}, "k", 5)
    assert (first.correlation_id, first.tenant_id) == ("c", "x")
    assert (second.payload, second.priority) == (2, 0)


def test_dedupe_keys_work_in_bulk(mq: Caller) -> None:
    mq.publish("t", "first", dedupe_key="a")
    with mq.db.transaction():
        load(mq.db, "payload, dedupe_key", [("1", "a"), ("2", "b"), ("3", "b"), ("4", None)])
        mq("publish_stage", "t")
    assert sorted(map(str, mq.payloads("q"))) == ["2", "4", "first"]


def test_publisher_may_publish_in_bulk_and_never_touches_the_log(
    connect: Connect, mq: Caller
) -> None:
    session = connect(role="penstock_publisher", autocommit=False)
    load(session, "payload", [("1",), ("2",)])
    session.execute("select penstock.publish_stage('t')")
    session.commit()
    assert mq.payloads("q") == [1, 2]


def test_rolled_back_load_leaves_nothing(mq: Caller, connect: Connect) -> None:
    session = connect(autocommit=False)
    with nothing_changes(mq.db):
        load(session, "payload", [("1",)])
        session.execute("select penstock.publish_stage('t')")
        session.rollback()
    load(session, "payload", [("2",)])
    session.execute("select penstock.publish_stage('t')")
    session.commit()
    assert mq.payloads("q") == [2]


def test_one_faulty_row_keeps_all_from_being_published(mq: Caller, connect: Connect) -> None:
    session = connect(autocommit=False)
    with nothing_changes(mq.db), refused("PS005", "priority"):
        load(session, "payload, priority", [("1", 0), ("2", 99_999)])
        session.execute("select penstock.publish_stage('t')")
    session.rollback()
    with nothing_changes(mq.db), pytest.raises(psycopg.errors.InvalidTextRepresentation):
        load(session, "payload", [("no json",)])


def test_empty_stage_publishes_nothing(mq: Caller) -> None:
    with mq.db.transaction():
        load(mq.db, "payload", [])
        assert mq("publish_stage", "t") == 0


def test_stage_can_be_filled_and_published_twice_in_a_transaction(mq: Caller) -> None:
    with mq.db.transaction():
        load(mq.db, "payload", [("1",)])
        mq("publish_stage", "t")
        mq.db.execute("insert into penstock_stage (payload) values ('2')")
        assert mq("publish_stage", "t") == 1
    assert mq.payloads("q") == [1, 2]


def test_unknown_topic_says_so(mq: Caller, connect: Connect) -> None:
    session = connect(autocommit=False)
    load(session, "payload", [("1",)])
    with refused("PS001", "'nothing'"):
        session.execute("select penstock.publish_stage('nothing')")


def test_a_gap_in_the_places_of_a_stage_is_passed(mq: Caller) -> None:
    """A COPY that was rolled back to a savepoint leaves one."""
    with mq.db.transaction():
        load(mq.db, "payload", [(json.dumps(n),) for n in range(20_000)])
        mq.db.execute("delete from penstock_stage where place between 101 and 19900")
        assert mq("publish_stage", "t") == 200
    assert mq.drain("q") == [*range(100), *range(19_900, 20_000)]
