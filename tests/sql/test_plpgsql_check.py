"""plpgsql_check reads every PL/pgSQL function of the engine: names, types, missing columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

FUNCTIONS = """
    select p.oid from pg_proc p join pg_language l on l.oid = p.prolang
    where l.lanname = 'plpgsql' and p.prorettype <> 'trigger'::regtype
      and p.pronamespace::regnamespace::text in ('penstock', 'penstock_data', 'pgqs', 'pgqs_data')
      -- Its rows come from dynamic SQL, whose columns cannot be known.
      and p.proname <> 'refuse_stage'
"""
FAULTS = f"""
    select f.oid::regprocedure::text, c.level, c.lineno, c.message
    from ({FUNCTIONS}) f
    cross join lateral plpgsql_check_function_tb(
        f.oid::regprocedure, other_warnings => true, extra_warnings => false,
        performance_warnings => false, fatal_errors => false) c
    where c.message <> 'target type is different type than source type'  -- casts in assignments
    order by 1, 3
"""


def test_plpgsql_check_finds_no_fault_in_any_function(db: psycopg.Connection[Any]) -> None:
    there = db.execute("select from pg_available_extensions where name = 'plpgsql_check'")
    if not there.fetchall():
        pytest.skip("this PostgreSQL has no plpgsql_check; see tools/debian_packages.sh")
    db.execute("create extension plpgsql_check")
    checked = db.execute(f"select count(*) from ({FUNCTIONS}) f".encode()).fetchone()
    assert checked is not None
    assert checked[0] > 100
    with db.transaction():
        db.execute("select penstock.create_stage()")  # which publish_stage reads
        rows = db.execute(FAULTS.encode()).fetchall()
    found = ["{}: {} in line {}: {}".format(*row) for row in rows]
    assert not found, "\n".join(found)
