"""Installing over the engine of an earlier release, with messages in every place.

`released/` keeps the scripts of each released engine as one text, and those of the last commit
before migrations had numbers.  At a release, add one:

    python -c "from penstock import schema; print(schema.script('install.sql'))" | gzip -9n > …
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema, sync
from penstock.errors import WrongSchemaVersion
from tests.concurrency.sessions import in_background
from tests.sql.caller import Caller
from tests.sql.traffic import Traffic

if TYPE_CHECKING:
    from tests.fixtures.databases import Connect, Database

RELEASED = sorted(Path(__file__).with_name("released").glob("*.sql.gz"))

# All that the scripts make: a fresh engine and one that was brought up must be equal in it.
MADE = {
    "functions": """
        select p.oid::regprocedure::text, pg_get_function_arguments(p.oid),
            pg_get_function_result(p.oid), p.prosecdef, p.proconfig, p.provolatile, md5(p.prosrc),
            array(select a::text from unnest(p.proacl) a order by 1),
            obj_description(p.oid, 'pg_proc')
        from pg_proc p where p.pronamespace::regnamespace::text ~ '^(penstock|pgqs)'
          and p.proname <> 'schema_fingerprint'
    """,
    "columns": """
        select c.oid::regclass::text, a.attname, format_type(a.atttypid, a.atttypmod),
            a.attnotnull, a.attgenerated, a.attidentity, pg_get_expr(d.adbin, d.adrelid)
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relnamespace::regnamespace::text ~ '^(penstock|pgqs)' and c.relkind <> 'i'
          and a.attnum > 0 and not a.attisdropped
    """,
    "tables": """
        select c.oid::regclass::text, c.relkind, c.relpersistence, c.relreplident, c.reloptions,
            array(select a::text from unnest(coalesce(c.relacl, acldefault(
                case c.relkind when 'S' then 's' else 'r' end::"char", c.relowner))) a order by 1),
            obj_description(c.oid, 'pg_class')
        from pg_class c where c.relnamespace::regnamespace::text ~ '^(penstock|pgqs)'
          and c.relkind <> 'i'
    """,
    "indexes": """
        select pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indrelid
        where c.relnamespace::regnamespace::text ~ '^(penstock|pgqs)'
    """,
    "constraints": """
        select n.conrelid::regclass::text, pg_get_constraintdef(n.oid) from pg_constraint n
        where n.connamespace::regnamespace::text ~ '^(penstock|pgqs)'
    """,
    "views": """
        select c.oid::regclass::text, pg_get_viewdef(c.oid) from pg_class c
        where c.relnamespace::regnamespace::text ~ '^(penstock|pgqs)' and c.relkind = 'v'
    """,
    "schemas": """
        select n.nspname, obj_description(n.oid, 'pg_namespace'), array(
            select a::text from unnest(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
            order by 1)
        from pg_namespace n where n.nspname ~ '^(penstock|pgqs)'
    """,
    "migrations": "select number, name from penstock_data.migrations",
    "triggers": """
        select pg_get_triggerdef(t.oid) from pg_trigger t where not t.tgisinternal
    """,
}


def made(db: Any, what: str) -> list[str]:
    return sorted(map(repr, db.execute(MADE[what].encode()).fetchall()))


@pytest.fixture(params=RELEASED, ids=lambda path: path.name.removesuffix(".sql.gz"))
def old(request: pytest.FixtureRequest, empty_database: Database) -> Database:
    """A database with an earlier engine."""
    script = gzip.decompress(request.param.read_bytes())
    with psycopg.connect(empty_database.dsn) as db:
        db.execute(script)
    return empty_database


def test_install_over_a_released_engine_keeps_what_goes_on(old: Database) -> None:
    with psycopg.connect(old.dsn, autocommit=True) as db:
        traffic = Traffic.begin(Caller(db))
    with psycopg.connect(old.dsn) as db:
        schema.install(db)
        schema.install(db)
    with psycopg.connect(old.dsn, autocommit=True) as db:
        traffic.finish(Caller(db), rebased=False)


def test_a_client_of_this_package_says_that_an_earlier_engine_is_too_old(old: Database) -> None:
    with pytest.raises(WrongSchemaVersion, match="penstock init"), sync.connect(old.dsn):
        pass
    with psycopg.connect(old.dsn) as db:
        schema.install(db)
    with sync.connect(old.dsn) as mq:
        assert mq.list_queues() == []


def test_a_session_that_was_open_goes_on_after_the_upgrade(old: Database) -> None:
    with psycopg.connect(old.dsn, autocommit=True) as open_before:
        traffic = Traffic.begin(Caller(open_before))
        with psycopg.connect(old.dsn) as db:
            schema.install(db)
        traffic.finish(Caller(open_before), rebased=False)


def test_a_call_that_has_begun_ends_before_the_upgrade_locks_what_it_needs(old: Database) -> None:
    with (
        psycopg.connect(old.dsn, autocommit=True) as observer,
        psycopg.connect(old.dsn) as caller,
        psycopg.connect(old.dsn) as installer,
    ):
        # As a claim does in its statements; else the two would wait for each other.
        caller.execute("select from penstock_data.settings")
        upgrade = in_background(observer, installer, lambda: schema.install(installer))
        caller.execute("set lock_timeout = '500ms'")
        caller.execute("select from penstock_data.positions")
        caller.commit()
        upgrade.result()


def test_an_upgraded_engine_is_equal_to_a_fresh_one(old: Database, connect: Connect) -> None:
    with psycopg.connect(old.dsn) as db:
        schema.install(db)
        fresh = connect()
        for what in MADE:
            assert made(fresh, what), what
            assert made(db, what) == made(fresh, what), what
