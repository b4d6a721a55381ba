"""The page of MySQL statements is made from the statements themselves."""

from __future__ import annotations

from pathlib import Path

from penstock.tasks.sql import load

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "mysql-statements.md"
HEAD = """\
# Every statement on MySQL and MariaDB

Tasks keep to what MySQL 8.0 and MariaDB 10.6 both understand. This page lists every statement of
`src/penstock/tasks/mysql/statements.sql` with the reason why it is valid on both; a test keeps it
current (`python -m tests.tasks.test_docs` writes it).

**What was run where.** All of it runs in `make test` on MariaDB 10.11 (Debian 12), and in `make
prove` with the server killed ten times. MySQL 8.0 itself was not at hand: there the claim rests
on MySQL's manual and on keeping to the common subset: no `RETURNING`, no `UPDATE … FROM`, no
`WITH … UPDATE`, no `FOR UPDATE OF`, no subquery on the table that a statement changes, `LIMIT`
before `FOR UPDATE`, and no `DISTINCT` where MariaDB would read a whole index.

Words in braces are filled in: `{ready}` is `waiting = 0`, or `available_at <= created_at` on a
table made by hand; `{order}` is `urgency, created_at, id` or `priority desc, created_at, id`;
`{ready_topic}` and its like are `force index (…)` where that index exists, and nothing elsewhere;
`{values}` are rows; `{each}` is one query for each topic.

Each session begins with `sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'`, `time_zone =
'+00:00'`, `innodb_lock_wait_timeout`, `sql_notes = 0` (variables of both) and `set session
transaction isolation level read committed` (the statement, because the variable has two names).
"""


def page() -> str:
    parts = [
        f"## {each.name}\n\n{each.reason}\n\n```mysql\n{each.sql};\n```\n"
        for each in load("penstock.tasks.mysql").values()
    ]
    return "\n".join([HEAD, *parts])


def test_the_page_of_mysql_statements_is_current():
    advice = "run: python -m tests.tasks.test_docs"
    assert PAGE.read_text(encoding="utf-8") == page(), advice


def test_every_mysql_statement_says_why_it_is_valid_on_mysql_too():
    assert [each.name for each in load("penstock.tasks.mysql").values() if not each.reason] == []


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
