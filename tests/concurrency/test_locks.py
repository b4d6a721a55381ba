"""Locks of the engine need rights: a role that may only connect stops nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from tests.concurrency.sessions import call, value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.databases import Connect, Database

# The keys of the advisory locks that earlier versions took, by what they stopped.
ADVISORY_KEYS = (
    "1346719315, hashtext('q')",
    "1346719315, hashtext('keys')",
    "1346719316, hashtext('s')",
    "1346719317, 0",
    "1346719320, hashtext('sqs:000000000000:us-east-1:letters.fifo')",
)


@pytest.fixture
def stranger(database: Database, db: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """A session of a role that may connect and nothing else."""
    role = sql.Identifier(f"stranger_{database.name}")
    db.execute(sql.SQL("create role {} login").format(role))
    with psycopg.connect(database.dsn, user=f"stranger_{database.name}", autocommit=True) as conn:
        yield conn
    db.execute(sql.SQL("drop role {}").format(role))


def test_advisory_locks_of_a_role_without_rights_stop_nothing(
    db: psycopg.Connection[Any], stranger: psycopg.Connection[Any]
) -> None:
    call(db, "create_queue", "q", "t")
    db.execute("select penstock.create_queue('keys', 't', ordering => 'fifo')")
    call(db, "publish_message", "t", '{"n": 1}')
    for key in ADVISORY_KEYS:
        stranger.execute(f"select pg_advisory_lock({key})")

    assert value(db, "select count(*) from penstock.consume_message('q', 'w')") == 1
    assert value(db, "select count(*) from penstock.consume_message('keys', 'w')") == 1
    assert value(db, "select count(*) from penstock.maintain()") > 0
    assert value(db, "select penstock.purge_queue('q')") == 1


def test_no_function_of_the_engine_takes_an_advisory_lock(db: psycopg.Connection[Any]) -> None:
    found = db.execute(
        "select p.oid::regprocedure::text from pg_proc p"
        " where p.pronamespace in ('penstock'::regnamespace, 'penstock_data'::regnamespace,"
        " 'pgqs'::regnamespace, 'pgqs_data'::regnamespace) and p.prosrc ~ 'advisory'"
    ).fetchall()
    assert found == []


def test_a_role_without_rights_cannot_lock_the_rows_of_the_claim_locks(
    db: psycopg.Connection[Any], stranger: psycopg.Connection[Any]
) -> None:
    call(db, "create_queue", "q", "t")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute("select from penstock_data.claim_locks for update")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute("do $$ begin lock table penstock_data.claim_locks in share mode; end $$")


def test_claims_take_turns_while_the_rows_of_the_claim_locks_are_gone(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    """As after a crash, which empties unlogged tables."""
    call(db, "create_queue", "q", "t")
    call(db, "configure", "lock_wait", "30 milliseconds")
    db.execute("select penstock.publish_message('t', '1'), penstock.publish_message('t', '2')")
    db.execute("truncate penstock_data.claim_locks")
    first = connect(autocommit=False)
    second = connect()
    held = first.execute("select message_id from penstock.consume_message('q', 'first')").fetchall()
    assert len(held) == 1
    assert not second.execute("select from penstock.consume_message('q', 'second')").fetchall()
    assert value(db, "select penstock_data.restore_claim_locks()") == 0  # the queue is in use
    first.commit()
    # The claim has added the row.
    assert value(db, "select count(*) from penstock_data.claim_locks") == 1
    assert value(db, "select penstock_data.restore_claim_locks()") == 0
    (other,) = second.execute(
        "select message_id from penstock.consume_message('q', 's')"
    ).fetchall()
    assert other not in held


def test_a_claim_that_began_without_the_row_of_its_lock_excludes_those_that_find_it(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    call(db, "create_queue", "q", "t")
    call(db, "configure", "lock_wait", "30 milliseconds")
    call(db, "publish_message", "t", "1")
    db.execute("truncate penstock_data.claim_locks")
    first = connect(autocommit=False)
    first.execute("select from penstock.consume_message('q', 'first')")
    restorer = connect(autocommit=False)
    assert value(restorer, "select penstock_data.restore_claim_locks()") == 0
    restorer.commit()
    assert not db.execute("select from penstock.consume_message('q', 'second')").fetchall()
    first.rollback()
    assert len(db.execute("select from penstock.consume_message('q', 'second')").fetchall()) == 1


def test_health_names_the_session_that_holds_a_claim_lock_taken_in_a_savepoint(
    db: psycopg.Connection[Any], connect: Connect
) -> None:
    call(db, "create_queue", "q", "t")
    holder = connect(autocommit=False)
    holder.execute("savepoint s")
    holder.execute("select from penstock.consume_message('q', 'holder')")
    holder.execute("release s")
    held_by = "select pid from penstock_data.claim_lock_holders('0 seconds')"
    assert value(db, held_by) == holder.info.backend_pid
    holder.rollback()
    assert db.execute(held_by).fetchall() == []
