"""The line "-- Roles: …" above a function is what its grants are made of."""

from __future__ import annotations

import gzip
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from tools import grants
from tools.sql_reference import functions, granted

if TYPE_CHECKING:
    from tests.fixtures.databases import Database

    Session = psycopg.Connection[Any]

ROOT = Path(__file__).parents[2]
BY_HAND = Path(__file__).with_name("released") / "engine-1-38ec773.sql.gz"
# Every right of a role on what the scripts make, whoever granted it.
RIGHTS = """
    with made as (
        select p.oid::regprocedure::text as name,
            coalesce(p.proacl, acldefault('f', p.proowner)) as acl, p.pronamespace as namespace
        from pg_proc p
        union all
        select c.oid::regclass::text, coalesce(c.relacl, acldefault('r', c.relowner)),
            c.relnamespace from pg_class c where c.relkind in ('r', 'p', 'v')
        union all
        select n.nspname, coalesce(n.nspacl, acldefault('n', n.nspowner)), n.oid from pg_namespace n
    )
    select m.name, coalesce(r.rolname, 'public'), a.privilege_type, a.is_grantable
    from made m cross join lateral aclexplode(m.acl) a left join pg_roles r on r.oid = a.grantee
    where m.namespace::regnamespace::text ~ '^(penstock|pgqs)'
"""


def rights(db: Session) -> set[Any]:
    return set(db.execute(RIGHTS.encode()).fetchall())


def test_the_file_is_current() -> None:
    tool = ROOT / "tools" / "grants.py"
    ran = subprocess.run(
        [sys.executable, tool, "--check"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_each_function_is_granted_to_the_roles_of_its_header_and_to_no_other(db: Session) -> None:
    rows = db.execute(
        """
        select n.nspname, p.proname, array(
            select r.rolname::text from aclexplode(p.proacl) a join pg_roles r on r.oid = a.grantee
            where a.grantee <> p.proowner)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname in ('penstock', 'pgqs')
        """
    ).fetchall()
    told = {(each.schema, each.name): set(each.roles) for each in granted()}
    assert {(namespace, name): set(roles) for namespace, name, roles in rows} == told


def test_the_grants_are_those_of_the_list_that_was_kept_by_hand(
    empty_database: Database, db: Session
) -> None:
    """Of what both engines have; tests/sql/test_roles_and_grants.py knows the rest."""
    with psycopg.connect(empty_database.dsn) as conn:
        conn.execute(gzip.decompress(BY_HAND.read_bytes()))
        before = rights(conn)
    now = rights(db)
    both = {row[0] for row in before} & {row[0] for row in now}
    assert len(both) > 400
    assert {row for row in now if row[0] in both} == {row for row in before if row[0] in both}


def test_an_installation_gives_back_what_was_taken_and_takes_what_public_got(
    database: Database, db: Session
) -> None:
    fresh = rights(db)
    db.execute(
        """
        revoke all on function penstock.ack_message(text, bigint, text) from penstock_consumer;
        grant execute on function penstock.purge_queue(text) to public;
        grant select on penstock_data.messages to public;
        grant usage on schema penstock_data to public;
        """
    )
    assert rights(db) != fresh
    with psycopg.connect(database.dsn) as conn:
        schema.install(conn)
    assert rights(db) == fresh


def test_public_loses_columns_too(database: Database, db: Session) -> None:
    db.execute("grant select (payload) on penstock_data.messages to public")
    with psycopg.connect(database.dsn) as conn:
        schema.install(conn)
    left = "select count(*) from pg_attribute where attacl::text ~ '[{,]=' and attname = 'payload'"
    assert db.execute(left).fetchone() == (0,)


@pytest.mark.parametrize(
    ("roles", "fault"),
    [
        ((), "has no roles"),
        (("penstock_clerk", "penstock_admin"), "unknown role: clerk"),
        (("penstock_consumer",), "leaves out admin"),
        (("penstock_admin", "penstock_consumer"), "another order"),
        (("penstock_admin", "penstock_admin"), "twice"),
    ],
)
def test_a_header_that_cannot_be_used_is_refused(
    monkeypatch: pytest.MonkeyPatch, roles: tuple[str, ...], fault: str
) -> None:
    function = replace(granted()[0], roles=roles)
    monkeypatch.setattr(grants, "granted", lambda: [function])
    with pytest.raises(SystemExit, match=f"{function.name} .*{fault}"):
        grants.script()


def test_functions_of_one_name_have_the_same_roles(monkeypatch: pytest.MonkeyPatch) -> None:
    function = replace(granted()[0], roles=("penstock_admin",))
    other = replace(function, roles=("penstock_monitor", "penstock_admin"))
    monkeypatch.setattr(grants, "granted", lambda: [function, other])
    with pytest.raises(SystemExit, match="same name"):
        grants.script()


def test_no_internal_function_names_roles() -> None:
    """They are not for roles, and the few that views call are in roles.sql."""
    inside = {"penstock_data", "pgqs_data"}
    assert not [each.name for each in functions() if each.schema in inside and each.roles]
