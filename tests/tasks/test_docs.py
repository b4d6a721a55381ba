"""The pages about tasks: what they list is complete, and what they name exists."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

from penstock import tasks
from penstock.tasks.stores.sql_statements import load

NAMES = Path(__file__).parents[2] / "docs" / "reference" / "task-names.md"
STORES = Path(tasks.__path__[0]) / "stores"
PAGE = Path(__file__).parents[2] / "docs" / "internals" / "mysql-statements.md"
# Schemes of DSNs, and what is not of tasks alone.
WORDS = {"postgresql", "mysql", "mariadb", "True", "penstock", "observe", "task", "lost", "lease"}
WORDS |= {"worker"}
HEAD = """\
# Every statement on MySQL and MariaDB

Tasks keep to what MySQL 8.0 and MariaDB 10.6 both understand. This page lists every statement of
`src/penstock/tasks/stores/mysql_statements.sql` with the reason why it is valid on both; a test
keeps it current (`python -m tests.tasks.test_docs` writes it).

**What was run where.** All of it runs in `make test` on MariaDB 10.11 (Debian 12), and in `make
prove` with the server killed ten times. MySQL 8.0 itself was not at hand: there the claim rests
on MySQL's manual and on keeping to the common subset: no `RETURNING`, no `UPDATE … FROM`, no
`WITH … UPDATE`, no `FOR UPDATE OF`, no subquery on the table that a statement changes, `LIMIT`
before `FOR UPDATE`, and no `DISTINCT` where MariaDB would read a whole index.

Words in braces are filled in: `{ready}` is `waiting = 0`, or `available_at <= created_at` on a
table made by hand; `{order}` is `urgency, created_at, id` or `priority desc, created_at, id`;
`{ready_topic}` and its like are `force index (…)` where that index exists, and nothing elsewhere;
`{values}` are rows; `{each}` is one query for each topic.
"""
TABLES = """\
## The tables

`datetime(6)` is known since MySQL 5.6, `generated always as (…) stored` since 5.7, and both are in
MariaDB 10.6. `/*M!100600 … */` is a comment to MySQL and code to MariaDB; `/*!80017 … */` is code
to MySQL and a comment to MariaDB, which skips MySQL's numbers from 50700 on. No index is longer
than InnoDB's 3,072 bytes, no default is an expression, and no index is descending or computed.
"""


def page() -> str:
    parts = [
        f"## {each.name}\n\n{each.reason}\n\n```mysql\n{each.sql};\n```\n"
        for each in load("mysql_statements.sql").values()
    ]
    tables = STORES / "mysql_schema.sql"
    made = f"```mysql\n{tables.read_text(encoding='utf-8')}```\n"
    return "\n".join([HEAD, *parts, TABLES, made])


def test_the_page_of_mysql_statements_is_current():
    advice = "run: python -m tests.tasks.test_docs"
    assert PAGE.read_text(encoding="utf-8") == page(), advice


def test_every_mysql_statement_says_why_it_is_valid_on_mysql_too():
    assert [each.name for each in load("mysql_statements.sql").values() if not each.reason] == []


def test_no_mysql_statement_stands_outside_the_list():
    texts = [
        node.value
        for path in STORES.glob("mysql_*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    verbs = r"(select|insert|update|delete|replace|set|alter|create|drop|show|call|with)"
    assert len(texts) > 100
    assert [text for text in texts if re.match(rf"\s*{verbs}\s\S+\s", text)] == []


def test_every_method_of_a_store_is_documented():
    methods = [
        getattr(tasks.TaskStore, name) for name in vars(tasks.TaskStore) if not name.startswith("_")
    ]
    assert len(methods) > 20
    assert [each.__name__ for each in methods if not inspect.getdoc(each)] == []


def vocabulary() -> set[str]:
    """Every name that a user of tasks can type: classes, methods, arguments, fields, tables."""
    known: set[str] = set()
    for name in tasks.__all__:
        known |= {name, *members(getattr(tasks, name))}
    schema = STORES / "mysql_schema.sql"
    pg = STORES / "postgres_schema.sql"
    for path in (schema, pg):
        known |= set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return known


def members(found: Any) -> set[str]:
    known = set(arguments(found))
    if inspect.isclass(found):
        for name, member in inspect.getmembers(found):
            known |= {name, *arguments(member)}
    return known


def arguments(found: Any) -> list[str]:
    try:
        return list(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return []


def test_what_the_page_of_task_names_names_exists():
    rows = [line.split(" | ") for line in NAMES.read_text(encoding="utf-8").splitlines()]
    ours = [row[1] for row in rows if len(row) == 2 and row[0] != "| there"]
    words = {
        word
        for cell in ours
        for code in re.findall(r"`([^`]+)`", cell)
        for word in re.findall(r"[A-Za-z_]\w+", code)
    }
    assert len(ours) > 20
    assert words - vocabulary() - WORDS == set()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
