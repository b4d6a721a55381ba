"""sql/install.sql and sql/uninstall.sql by plain psql."""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from penstock import schema
from tests.fixtures.databases import Database
from tests.sql.caller import Caller
from tests.sql.refusals import contents, refused

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.cluster import Server

#: The revision, and a digest of the public functions that it has.
PUBLIC_FUNCTIONS = (1, "be506ef69a339ab6")
SCHEMAS = "select count(*) from pg_namespace where nspname in ('penstock', 'penstock_data')"


def run(
    database: Database, script: str, *, cwd: Path | str = "/", user: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one of our scripts as a person would: psql "$DSN" -f …"""
    dsn = make_conninfo(database.dsn, user=user) if user else database.dsn
    command = [database.server.binaries.program("psql"), "-X", "-d", dsn]
    command += ["-f", str(schema.folder() / script)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def install(database: Database, **options: Any) -> None:
    done = run(database, "install.sql", **options)
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr


@pytest.fixture
def session(empty_database: Database) -> Iterator[Caller]:
    with psycopg.connect(empty_database.dsn, autocommit=True) as conn:
        yield Caller(conn)


def life(mq: Caller) -> None:
    """One message of each kind lives through everything."""
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq("configure", "segment_bytes", "1")
    mq.publish_many("t", [1, 2, 3], priorities=[0, 1, 0])
    rows = mq.consume("q", 2)
    mq.ack("q", rows[0].message_id)
    mq.nack("q", rows[1].message_id)
    mq.rows("maintain")
    assert mq("requeue_dlq_messages", "q") == 1
    assert len(mq.drain("q")) == 2
    assert sorted(mq.drain("lanes")) == [1, 2, 3]
    mq.rows("maintain")
    assert mq.value("select count(*) from penstock.messages") == 0
    assert mq.rows("health") != []
    mq("delete_topic", "t")


def dump(database: Database) -> list[str]:
    program = database.server.binaries.program("pg_dump")
    done = subprocess.run(
        [program, "--schema-only", "-d", database.dsn], capture_output=True, text=True, check=True
    )
    return [line for line in done.stdout.splitlines() if not line.startswith("\\")]


def test_install_works_from_any_folder(
    empty_database: Database, session: Caller, tmp_path: Path
) -> None:
    install(empty_database, cwd=tmp_path)
    assert session("schema_version") == schema.EXPECTED_VERSION
    life(session)


def test_another_set_of_public_functions_is_another_revision(mq: Caller) -> None:
    """A client of this package must notice an engine that lacks what it calls.

    If this fails: raise `schema_revision()` and `schema.EXPECTED_REVISION`, and note the digest.
    """
    functions = mq.value(
        """
        select string_agg(
            p.oid::regprocedure::text || ' ' || pg_get_function_result(p.oid), E'\n'
            order by p.oid::regprocedure::text collate "C")
        from pg_proc p where p.pronamespace::regnamespace::text in ('penstock', 'pgqs')
        """
    )
    digest = hashlib.sha256(str(functions).encode()).hexdigest()[:16]
    assert (mq("schema_revision"), digest) == PUBLIC_FUNCTIONS
    assert mq("schema_revision") == schema.EXPECTED_REVISION


def test_install_again_changes_nothing(empty_database: Database) -> None:
    install(empty_database)
    once = dump(empty_database)
    install(empty_database, cwd=schema.folder())
    assert dump(empty_database) == once


def test_psql_and_the_python_package_install_the_same(
    empty_database: Database, database: Database
) -> None:
    install(empty_database)
    noted = f" AS $$select '{schema.fingerprint()}'$$;"
    unknown = " AS $$ select null::text $$;"
    by_package = dump(database)
    assert sum(line.endswith(noted) for line in by_package) == 1
    assert dump(empty_database) == [line.replace(noted, unknown) for line in by_package]


def test_psql_over_an_engine_of_the_package_forgets_whose_scripts_they_were(
    database: Database, mq: Caller
) -> None:
    assert mq("schema_fingerprint") == schema.fingerprint()
    install(database)
    assert mq("schema_fingerprint") is None


def test_install_over_data_keeps_every_message(database: Database, mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    mq("create_queue", "lanes", "t", ordering="fifo")
    mq("create_reader", "r", "t")
    mq.publish_many("t", list(range(6)), dedupe_keys=["d", None, None, None, None, None])
    rows = mq.consume("q", 4)
    mq.ack("q", rows[0].message_id)
    mq.nack("q", rows[1].message_id)
    mq("release_message", "q", rows[2].message_id, "me")
    mq.consume("lanes", 1)
    mq("configure", "segment_age", "3 days")
    before = contents(mq.db)
    install(database)
    assert contents(mq.db) == before
    assert mq.ack("q", rows[3].message_id)
    assert sorted(mq.drain("q")) == [2, 4, 5]


FEWER_COLUMNS = [
    "penstock.get_queue_statistics(text)",
    "penstock.queue_overview()",
    "penstock.queue_contents(text, bigint, bigint)",
    "penstock.browse_messages(text, bigint, int)",
    "penstock.find_messages(text, text, text, int, text, text, jsonb)",
    "penstock.inspect_message(text, bigint, int)",
    "penstock_data.count_queue(bigint)",
    "penstock_data.unread_some(bigint, bigint, int)",
]


def test_install_over_functions_that_told_fewer_columns_replaces_them(
    database: Database, mq: Caller
) -> None:
    install(database)
    fresh = dump(database)
    for signature in FEWER_COLUMNS:
        mq.db.execute(f"drop function {signature}".encode())
        mq.db.execute(
            f"create function {signature} returns table (one int, two int)"
            " language sql as 'select 1, 2'".encode()
        )
    install(database)
    assert dump(database) == fresh


def test_install_over_an_engine_that_did_not_note_expiries_notes_them(
    database: Database, mq: Caller
) -> None:
    mq("create_queue", "q", "t")
    mq("create_queue", "lanes", "t", ordering="fifo")
    moment = mq.at(seconds=600)
    for payload in (1, 2):
        mq.publish("t", payload, priority=1, key="k", expires_at=moment)
    for queue in ("q", "lanes"):
        (row,) = mq.consume(queue, 1)
        if queue == "lanes":
            assert mq.consume(queue, 1) == []  # the other enters its lane
        assert mq("release_message", queue, row.message_id, "me")
    mq.db.execute(
        """
        drop table penstock_data.migrations, penstock_data.renewals;
        alter table penstock_data.scheduled drop column expires_at;
        alter table penstock_data.backlog drop column expires_at;
        alter type penstock_data.entry drop attribute expires_at;
        """
    )
    install(database)
    for table, count in (("scheduled", 3), ("backlog", 1)):
        noted = mq.value(f"select array_agg(expires_at) from penstock_data.{table}")
        assert noted == [moment] * count, table
    assert sorted(mq.drain("q")) == [1, 2]
    assert mq.drain("lanes") == [1, 2]


def test_install_over_grown_segments_keeps_them(database: Database, mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq("configure", "segment_bytes", "1")
    for number in range(6):
        mq.publish("t", number)
        mq.rows("maintain")
    install(database)
    assert mq.drain("q") == list(range(6))


def test_install_brings_housekeeping_in_steps_to_an_earlier_engine(
    database: Database, mq: Caller
) -> None:
    mq("create_queue", "q", "t")
    mq.publish("t", "kept")
    mq.db.execute(
        """
        alter table penstock_data.segments drop column freed_by, drop column leaving;
        drop table penstock_data.migrations, penstock_data.maintenance;
        alter table penstock_data.messages_2 replica identity default;
        drop function penstock.maintain();
        drop procedure penstock.run_maintenance();
        create function penstock.maintain() returns table (step text, affected bigint)
        language sql as 'select null, 0'
        """
    )
    install(database)
    assert mq.payloads("q") == ["kept"]
    mq.db.execute("call penstock.run_maintenance()")
    assert {row.error for row in mq.rows("maintain")} == {None}
    identity = "select relreplident from pg_class where oid = 'penstock_data.messages_2'::regclass"
    assert mq.value(identity) in ("f", b"f")


def test_install_again_brings_back_no_segment_that_was_dropped(
    database: Database, mq: Caller
) -> None:
    for kind in ("messages", "receipts"):
        mq.db.execute(f"drop table penstock_data.{kind}_3".encode())
    mq.db.execute("delete from penstock_data.segments where number = 3")
    install(database)
    assert mq.value("select count(*) from penstock_data.segments") == 4
    assert mq.value("select to_regclass('penstock_data.messages_3')") is None
    life(mq)


def test_install_removes_functions_of_an_earlier_version(database: Database, mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish("t", "kept")
    # With one more optional argument than today, these make today's calls ambiguous.
    for function in (
        "penstock.publish_message(topic_name text, payload jsonb, gone int default 1)",
        "penstock_data.backoff(base interval, cap interval, attempt int, gone int default 1)",
        "penstock_data.position_of(queue_id bigint, gone int default 1)",
    ):
        mq.db.execute(f"create function {function} returns int language sql as 'select 1'".encode())
    install(database)
    install(database)
    assert mq.publish("t", "new")
    assert mq.payloads("q") == ["kept", "new"]
    left = "select count(*) from pg_proc where 'gone' = any (proargnames)"
    assert mq.value(left) == 0


def test_sessions_that_were_open_go_on_after_an_install(database: Database, mq: Caller) -> None:
    mq("create_queue", "q", "t")
    for number in range(8):
        mq.publish("t", number)
        mq.consume("q", 1)
    install(database)
    mq.publish("t", "after")
    assert mq.payloads("q") == ["after"]


def test_uninstall_removes_everything_and_can_be_repeated(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        Caller(conn)("create_queue", "q")
    for _ in range(2):
        done = run(database, "uninstall.sql")
        assert done.returncode == 0, done.stderr
        assert "ERROR" not in done.stderr
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        assert conn.execute(SCHEMAS).fetchone() == (0,)
        mine = conn.execute("select count(*) from pg_class where relname like '%penstock%'")
        assert mine.fetchone() == (0,)


def test_install_after_uninstall_starts_afresh(database: Database) -> None:
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        Caller(conn)("create_queue", "q")
    assert run(database, "uninstall.sql").returncode == 0
    install(database)
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        mq = Caller(conn)
        assert mq.rows("list_queues") == []
        life(mq)


def test_failed_install_leaves_nothing_behind(empty_database: Database, session: Caller) -> None:
    session.db.execute("create schema penstock")
    session.db.execute("create table penstock.topics (mine int)")
    done = run(empty_database, "install.sql")
    assert done.returncode != 0
    assert "ERROR" in done.stderr
    assert session.value("select to_regnamespace('penstock_data')") is None
    found = session.query(
        "select relname from pg_class where relnamespace = 'penstock'::regnamespace"
    )
    assert [row.relname for row in found] == ["topics"]


def test_older_scripts_refuse_a_newer_installation(database: Database, mq: Caller) -> None:
    mq("create_queue", "q")
    mq.db.execute(
        "create or replace function penstock.schema_version() returns int language sql "
        "immutable as 'select 999'"
    )
    before = contents(mq.db)
    done = run(database, "install.sql")
    assert done.returncode != 0
    assert "999" in done.stderr
    assert contents(mq.db) == before
    assert mq("schema_version") == 999


def owned_database(server: Server, owner: str, options: str) -> Database:
    server.administer(
        f"create role {owner} login {options}", f"create database {owner} owner {owner}"
    )
    return Database(server, owner)


def login(database: Database, user: str) -> psycopg.Connection[Any]:
    return psycopg.connect(database.dsn, user=user, autocommit=True)


def test_owner_with_createrole_installs_without_being_superuser(second_server: Server) -> None:
    database = owned_database(second_server, "carla", "createrole")
    install(database, user="carla")
    install(database, user="carla")
    second_server.administer("create role shop login in role penstock_publisher, penstock_consumer")
    with login(database, "carla") as owner, login(database, "shop") as shop:
        mq = Caller(owner)
        life(mq)
        mq("create_queue", "q", "t")
        mq("grant_queue", "q", "shop")
        clerk = Caller(shop)
        clerk.publish("t", 1)
        assert clerk.payloads("q") == [1]
        with refused("42501"):
            clerk("delete_queue", "q")
        assert [row.ok for row in mq.rows("health") if row.name == "roles"] == [True]


def test_owner_without_createrole_installs_for_itself_and_is_told(second_server: Server) -> None:
    database = owned_database(second_server, "otto", "nocreaterole")
    install(database, user="otto")
    with login(database, "otto") as owner:
        mq = Caller(owner)
        life(mq)
        (roles,) = [row for row in mq.rows("health") if row.name == "roles"]
        assert not roles.ok
        assert "CREATEROLE" in roles.advice
        # As the advice says: somebody with the right runs the script once more.
        install(database)
        assert [row.ok for row in mq.rows("health") if row.name == "roles"] == [True]
        life(mq)
    second_server.administer("create role reader login in role penstock_publisher")
    with login(database, "otto") as owner, login(database, "reader") as publisher:
        Caller(owner)("create_topic", "t")
        assert Caller(publisher).publish("t", 1)


def test_two_databases_of_a_cluster_share_the_roles_and_nothing_else(
    database: Database, empty_database: Database, mq: Caller, session: Caller
) -> None:
    install(empty_database)
    mq("create_queue", "q")
    assert session.rows("list_queues") == []
    assert run(empty_database, "uninstall.sql").returncode == 0
    mq.db.execute("set role penstock_publisher")
    assert mq.publish("q", 1)
