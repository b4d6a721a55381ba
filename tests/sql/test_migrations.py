"""Numbered migrations: each runs once, and an installation without news locks no table."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from penstock.errors import EngineError, WrongSchemaVersion
from tests.concurrency.sessions import (
    QUEUES,
    ack,
    call,
    claim,
    create,
    in_background,
    publish,
    publish_many,
    value,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.databases import Connect, Database

    Session = psycopg.Connection[Any]
    Door = Callable[[Database], None]

FILES = sorted((schema.folder() / "schema" / "migrations").iterdir())
NEXT = len(FILES) + 1

# Plain: a second run would fail.
MIGRATION = f"""
do $$
begin
    if penstock_data.record_migration({NEXT}, 'shelves') then
        {{change}}
    end if;
end
$$;
"""
COLUMN = "alter table penstock_data.queues add column shelf int;"


def by_python(database: Database) -> None:
    with psycopg.connect(database.dsn) as conn:
        schema.install(conn)


def by_psql(database: Database) -> None:
    database.psql("-f", str(schema.folder() / "install.sql"))


doors = pytest.mark.parametrize("install", [by_python, by_psql])


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """The engine's scripts with one more migration."""

    def release(change: str) -> None:
        copy = tmp_path / "sql"
        shutil.copytree(schema.folder(), copy)
        name = f"schema/migrations/{NEXT:04}_shelves.sql"
        (copy / name).write_text(MIGRATION.format(change=change), encoding="utf-8")
        script = copy / "install.sql"
        text = script.read_text(encoding="utf-8")
        last = f"\\ir schema/migrations/{FILES[-1].name}\n"
        assert text.count(last) == 1
        script.write_text(text.replace(last, f"{last}\\ir {name}\n"), encoding="utf-8")
        monkeypatch.setattr(schema, "folder", lambda: copy)

    return release


def recorded(db: Session) -> list[int]:
    return values(db, "select number from penstock_data.migrations order by number")


def shelves(db: Session) -> int:
    return int(value(db, "select count(*) from pg_attribute where attname = 'shelf'"))


def test_files_are_numbered_and_run_in_their_order() -> None:
    assert [file.name[:5] for file in FILES] == [f"{n:04}_" for n in range(1, NEXT)]
    listed = re.findall(
        r"^\\ir schema/migrations/(.*)$",
        (schema.folder() / "install.sql").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert listed == [file.name for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_records_its_own_number_and_name(file: Path) -> None:
    number, name = file.stem.split("_", 1)
    calls = re.findall(r"record_migration\((.*?)\)", file.read_text(encoding="utf-8"))
    assert calls == [f"{int(number)}, '{name}'"]


@doors
def test_a_new_installation_records_every_migration_and_runs_none(
    install: Door, empty_database: Database, next_release: Callable[[str], None]
) -> None:
    next_release(COLUMN)
    install(empty_database)
    with psycopg.connect(empty_database.dsn) as db:
        assert recorded(db) == list(range(1, NEXT + 1))
        assert shelves(db) == 0


@doors
def test_a_migration_runs_once(
    install: Door, database: Database, db: Session, next_release: Callable[[str], None]
) -> None:
    assert recorded(db) == list(range(1, NEXT))
    next_release(COLUMN)
    for _ in range(2):
        install(database)
        assert recorded(db) == list(range(1, NEXT + 1))
        assert shelves(db) == 1


def test_a_migration_that_fails_is_not_recorded(
    database: Database, db: Session, next_release: Callable[[str], None]
) -> None:
    next_release(f"{COLUMN} perform 1 / 0;")
    with pytest.raises(EngineError):
        by_python(database)
    assert recorded(db) == list(range(1, NEXT))
    assert shelves(db) == 0


def test_scripts_that_do_not_know_a_migration_refuse_the_database(
    database: Database, db: Session
) -> None:
    db.execute("insert into penstock_data.migrations values (%s, 'shelves')", (NEXT,))
    with pytest.raises(WrongSchemaVersion, match=f"{NEXT:04}_shelves") as refused:
        by_python(database)
    assert refused.value.code == "PS012"
    assert "newer release" in str(refused.value)


def test_scripts_refuse_just_the_versions_above_their_own(database: Database, db: Session) -> None:
    """schema.sql names the version once more."""
    by_python(database)
    higher = schema.EXPECTED_VERSION + 1
    db.execute(
        "create or replace function penstock.schema_version() returns int language sql "
        f"immutable as 'select {higher}'".encode()
    )
    with pytest.raises(WrongSchemaVersion, match=f"version {higher}.*{schema.EXPECTED_VERSION}"):
        by_python(database)


def hold_everything(session: Session) -> dict[str, list[int]]:
    """Do what clients do, in one transaction that stays open; the claims that it holds."""
    held = {}
    for kind in QUEUES:
        acked, failed, given_back, *rest = claim(session, 6, name=kind)
        assert ack(session, [acked], name=kind)
        assert call(session, "nack_message", kind, failed, "t", 0)
        assert call(session, "release_message", kind, given_back, "t")
        assert call(session, "extend_message_vt", kind, rest[0], "t", 60)
        held[kind] = rest
    publish(session, priority=3, dedupe_key="d")
    call(session, "start_waiting", "standard")
    session.execute("select penstock.read_window('reader', 2)")
    views = "select relname from pg_class where relnamespace = 'penstock'::regnamespace"
    for view in values(session, f"{views} and relkind = 'v'"):
        session.execute(f"select * from penstock.{view}".encode())
    session.execute("select penstock.health()")
    return held


@pytest.fixture
def shop(db: Session) -> None:
    for kind in QUEUES:
        create(db, kind, kind)
    create(db, "reader", "reader")
    publish_many(db, 8)


@pytest.mark.usefixtures("shop")
def test_an_installation_without_news_waits_for_no_client(connect: Connect, db: Session) -> None:
    client = connect(autocommit=False)
    held = hold_everything(client)
    schema.install(connect(autocommit=False, lock_timeout="1s"))
    for kind, ids in held.items():
        assert sorted(ack(client, ids, name=kind)) == sorted(ids)
    client.commit()
    for kind in QUEUES:
        assert claim(db, name=kind)


@pytest.mark.usefixtures("shop")
def test_an_installation_without_news_locks_no_table_against_clients(connect: Connect) -> None:
    session = connect(autocommit=False)
    session.execute(schema.script("install.sql").encode())
    # The others go together with whatever reads and writes rows.
    strong = """
        select l.relation::regclass::text, l.mode from pg_locks l
        join pg_class c on c.oid = l.relation
        where l.pid = pg_backend_pid() and c.relnamespace::regnamespace::text ~ '^(penstock|pgqs)'
          and l.mode not in ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock',
              'ShareUpdateExclusiveLock')
    """
    # Only one installation at a time (schema.sql); clients read the settings and seldom write them.
    assert session.execute(strong).fetchall() == [
        ("penstock_data.settings", "ShareRowExclusiveLock")
    ]


@pytest.mark.usefixtures("shop")
def test_clients_work_while_an_installation_without_news_is_open(
    connect: Connect, db: Session
) -> None:
    installing = connect(autocommit=False)
    installing.execute(schema.script("install.sql").encode())
    client = connect(autocommit=False, lock_timeout="1s")
    held = hold_everything(client)
    client.commit()
    installing.commit()
    for kind, ids in held.items():
        assert sorted(ack(db, ids, name=kind)) == sorted(ids)


def test_an_installation_without_news_waits_for_no_housekeeping(connect: Connect) -> None:
    keeper = connect(autocommit=False)
    keeper.execute("truncate penstock_data.messages_2, penstock_data.receipts_2")
    schema.install(connect(autocommit=False, lock_timeout="1s"))
    keeper.commit()


@pytest.mark.parametrize(
    "change",
    [
        "alter view penstock.log set (security_barrier = false)",
        """
        do $$ begin execute format(
            'create or replace view penstock.log with (security_barrier) as %s and false',
            rtrim(pg_get_viewdef('penstock.log'::regclass), ';')); end $$
        """,
        "drop view penstock.log",
    ],
    ids=["barrier", "condition", "dropped"],
)
def test_a_view_that_differs_is_replaced(database: Database, db: Session, change: str) -> None:
    definition = """
        select pg_get_viewdef(c.oid), c.reloptions, c.relacl::text
        from pg_class c where c.oid = to_regclass('penstock.log')
    """
    fresh = db.execute(definition).fetchone()
    assert fresh is not None
    db.execute(change.encode())
    by_python(database)
    assert db.execute(definition).fetchone() == fresh


def test_a_deadlock_with_a_client_is_overcome(
    connect: Connect, db: Session, next_release: Callable[[str], None]
) -> None:
    next_release(f"lock table penstock_data.claims; lock table penstock_data.queues; {COLUMN}")
    # The installation notices the deadlock, and the client does not.
    client = connect(autocommit=False, deadlock_timeout="1min")
    installer = connect(autocommit=False, deadlock_timeout="2s")
    client.execute("lock table penstock_data.queues in row exclusive mode")
    installing = in_background(db, installer, lambda: schema.install(installer))
    client.execute("lock table penstock_data.claims in row exclusive mode")
    client.commit()
    installing.result()
    assert shelves(db) == 1


def test_a_deadlock_in_a_transaction_of_the_caller_is_raised(
    connect: Connect, db: Session, next_release: Callable[[str], None]
) -> None:
    next_release(f"lock table penstock_data.claims; lock table penstock_data.queues; {COLUMN}")
    client = connect(autocommit=False, deadlock_timeout="1min")
    installer = connect(autocommit=False, deadlock_timeout="2s")
    installer.execute("create table mine ()")
    client.execute("lock table penstock_data.queues in row exclusive mode")
    installing = in_background(db, installer, lambda: schema.install(installer))
    client.execute("lock table penstock_data.claims in row exclusive mode")
    client.commit()
    with pytest.raises(EngineError, match="deadlock"):
        installing.result()
    assert shelves(db) == 0
