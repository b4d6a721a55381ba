"""Each check of health() that looks at the server fails when it should, and says what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.docs.pages import ROOT
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect
    from tests.sql.caller import Caller


def check(mq: Caller, function: str, *values: Any) -> Any:
    marks = ", ".join("%s" for _ in values)
    (row,) = mq.query(f"select * from penstock_data.{function}({marks})", *values)
    assert row.ok == (row.advice is None)
    return row


def test_everything_is_well_in_a_fresh_database(mq: Caller) -> None:
    assert [row for row in mq.rows("health") if not row.ok] == []


def test_settings_that_lose_messages_are_told(mq: Caller) -> None:
    mq.query("select set_config('penstock.throwaway', 'off', false)")
    found = check(mq, "check_settings")
    assert not found.ok
    assert "fsync is off" in found.detail
    assert "autovacuum is off" in found.detail


def test_an_old_transaction_is_told_with_its_backend(mq: Caller, connect: Connect) -> None:
    assert check(mq, "check_old_transactions", "0").ok
    holder = connect(autocommit=False, isolation="repeatable read")
    holder.execute("select 1 from pg_class limit 1")
    found = check(mq, "check_old_transactions", "0")
    assert not found.ok
    assert str(holder.info.backend_pid) in found.detail
    assert check(mq, "check_old_transactions", "1 hour").ok


def test_a_prepared_transaction_is_told_by_name(mq: Caller, connect: Connect) -> None:
    writer = connect(autocommit=False)
    writer.execute("create table nothing ()")
    writer.execute("prepare transaction 'forgotten'")
    try:
        found = check(mq, "check_prepared_transactions", "0")
        assert not found.ok
        assert "'forgotten'" in found.detail
    finally:
        mq.db.execute("rollback prepared 'forgotten'")
    assert check(mq, "check_prepared_transactions", "0").ok


def test_a_slot_that_nobody_reads_is_told(mq: Caller) -> None:
    mq.query("select pg_create_physical_replication_slot('unused', true)")
    try:
        found = check(mq, "check_slots")
        assert not found.ok
        assert "unused" in found.detail
    finally:
        mq.query("select pg_drop_replication_slot('unused')")
    assert check(mq, "check_slots").ok


def test_the_age_of_the_oldest_freeze_is_told(mq: Caller) -> None:
    assert not check(mq, "check_wraparound", 0).ok
    assert check(mq, "check_wraparound", 2_000_000_000).ok


def test_segments_that_nobody_empties_are_told(mq: Caller) -> None:
    mq("create_topic", "kept", "3 days")
    mq("create_queue", "q", "t")
    mq("configure", "segment_bytes", "1")
    mq.publish("t")
    mq.rows("maintain")
    advance(mq.db, seconds=4 * 86_400 - 60)
    assert check(mq, "check_segments", "1 day").ok
    advance(mq.db, seconds=120)
    assert not check(mq, "check_segments", "1 day").ok
    mq("purge_queue", "q")
    mq("configure", "segment_bytes", None)
    mq.rows("maintain")
    assert check(mq, "check_segments", "1 day").ok


def test_a_missing_and_an_invalid_index_are_told(mq: Caller) -> None:
    mq.db.execute("drop index penstock_data.claims_deadline")
    assert "claims_deadline is missing" in check(mq, "check_indexes").detail
    mq.db.execute(
        "update pg_index set indisvalid = false "
        "where indexrelid = 'penstock_data.queues_topic'::regclass"
    )
    assert "queues_topic is invalid" in check(mq, "check_indexes").detail


def test_every_index_of_the_tables_is_looked_for() -> None:
    files = sorted((ROOT / "sql/schema/tables").glob("*.sql"))
    tables = "".join(path.read_text() for path in files)
    made = set(re.findall(r"create (?:unique )?index (?:if not exists )?(\w+) on ", tables))
    assert made
    looked_for = (ROOT / "sql/maintenance/checkup.sql").read_text()
    assert {name for name in made if f"'{name}'" not in looked_for} == set()
