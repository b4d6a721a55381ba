"""The generated reference is current and agrees with an installed engine."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import penstock
from tests.docs.pages import GENERATED, ROOT, Page, every_page

if TYPE_CHECKING:
    import psycopg

REFERENCE = Page(GENERATED / "sql.md")
ROLES = ("penstock_publisher", "penstock_consumer", "penstock_monitor", "penstock_admin")


def _section(name: str) -> str:
    found = re.search(rf"^### {name}\n(.*?)(?=^##)", REFERENCE.text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/reference/sql.md says nothing of {name}"
    return found[1]


def test_reference_is_current() -> None:
    tool = ROOT / "tools" / "sql_reference.py"
    ran = subprocess.run(
        [sys.executable, tool, "--check"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr


def test_every_public_function_is_documented_with_its_arguments(
    db: psycopg.Connection[Any],
) -> None:
    rows = db.execute(
        "select proname, coalesce(proargnames[1:pronargs], '{}'), pronargdefaults from pg_proc "
        "where pronamespace = 'penstock'::regnamespace order by proname"
    ).fetchall()
    assert rows
    for name, arguments, defaults in rows:
        shown = re.search(
            rf"```text\n(?:call )?penstock\.{name}\((.*?)\)(?:\s+→ |\n)", _section(name), re.DOTALL
        )
        assert shown is not None, name
        parts = [part.strip() for part in shown[1].split(",") if part.strip()]
        assert [part.split()[0] for part in parts] == arguments, name
        assert sum(" default " in part for part in parts) == defaults, name


def test_reference_tells_of_no_function_that_does_not_exist(db: psycopg.Connection[Any]) -> None:
    rows = db.execute("select proname from pg_proc where pronamespace = 'penstock'::regnamespace")
    told = re.findall(r"^### (\w+)$", REFERENCE.text, re.MULTILINE)
    assert set(told) == {name for (name,) in rows}
    assert len(told) == len(set(told))


def test_every_view_is_documented_with_its_columns(db: psycopg.Connection[Any]) -> None:
    rows = db.execute(
        "select c.relname, array_agg(a.attname::text order by a.attnum) "
        "from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 "
        "where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'v' group by c.relname"
    ).fetchall()
    assert rows
    for name, columns in rows:
        told = re.search(r"Columns: (.*?)\.  \n", _section(f"View {name}"))
        assert told is not None
        assert re.findall(r"`(\w+)`", told[1]) == columns, name


def test_roles_table_agrees_with_the_grants(db: psycopg.Connection[Any]) -> None:
    for name, may in db.execute(
        "select p.proname, array(select has_function_privilege(r, p.oid, 'execute') "
        "from unnest(%s::text[]) r) from pg_proc p "
        "where p.pronamespace = 'penstock'::regnamespace",
        (list(ROLES),),
    ):
        assert _marks(f"[{name}](#{name})") == may, name
    for name, may in db.execute(
        "select c.relname, array(select has_table_privilege(r, c.oid, 'select') "
        "from unnest(%s::text[]) r) from pg_class c "
        "where c.relnamespace = 'penstock'::regnamespace and c.relkind = 'v'",
        (list(ROLES),),
    ):
        assert _marks(f"view [{name}](#view-{name})") == may, name


def _marks(label: str) -> list[bool]:
    (row,) = [line for line in REFERENCE.text.splitlines() if line.startswith(f"| {label} |")]
    return [cell.strip() == "●" for cell in row.split("|")[2:-1]]


def test_every_error_is_in_the_table(db: psycopg.Connection[Any]) -> None:
    rows = db.execute("select code, name, cause, cure from penstock.error_codes()").fetchall()
    assert rows
    for code, name, cause, cure in rows:
        assert f"| `{code}` | {name} | {cause} | {cure} |" in REFERENCE.text


def test_no_page_speaks_of_an_error_that_does_not_exist(db: psycopg.Connection[Any]) -> None:
    known = {code for (code,) in db.execute("select code from penstock.error_codes()")}
    for page in every_page():
        # PS000 never leaves the engine.
        assert set(re.findall(r"\bPS\d{3}\b", page.text)) - known <= {"PS000"}, page.name


def test_no_page_speaks_of_a_function_that_does_not_exist(db: psycopg.Connection[Any]) -> None:
    rows = db.execute(
        "select proname from pg_proc where pronamespace = 'penstock'::regnamespace "
        "union select relname from pg_class where relnamespace = 'penstock'::regnamespace"
    )
    # The Python package has the same name as the schema.
    known = {name for (name,) in rows} | set(penstock.__all__)
    for page in every_page():
        called = set(re.findall(r"\bpenstock\.([a-z_]+)\(", page.text))
        assert called - known == set(), page.name
