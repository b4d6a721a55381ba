"""Every SQL example of the documentation runs, and does what the page says.

A page's blocks run in their order, in one psql session on a fresh database with the engine.
A comment `-- → value` is a promise: psql prints that line, after those promised before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import Page, left_out, promises, written_pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from tests.fixtures.databases import Database

PAGES = [page for page in written_pages() if page.blocks("sql")]
FEW = 8


@pytest.fixture
def no_new_roles(db: psycopg.Connection) -> Iterator[None]:
    """Roles belong to the whole server: drop those that a page makes."""
    query = "select quote_ident(rolname) from pg_roles"
    before = {name for (name,) in db.execute(query)}
    yield
    for (name,) in db.execute(query).fetchall():
        if name not in before:
            db.execute(f"drop owned by {name}".encode())
            db.execute(f"drop role {name}".encode())


@pytest.mark.usefixtures("no_new_roles")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page_run_in_order(page: Page, database: Database, tmp_path: Path) -> None:
    file = tmp_path / page.path.name
    file.write_text(_script(page), encoding="utf-8")
    printed = database.psql("-A", "-t", "-f", str(file)).stdout.splitlines()
    kept = iter(printed)
    broken = [each for each in promises(page, "sql", "--") if each not in kept]
    assert not broken, f"{page.name} promises {broken[0]!r}; psql printed:\n" + "\n".join(printed)


def _script(page: Page) -> str:
    """The page's SQL on the page's own lines, so that psql names the line at fault."""
    lines = [""] * len(page.text.splitlines())
    for block in page.blocks("sql"):
        if block.not_run is None:
            for offset, line in enumerate(block.lines):
                lines[block.first_line - 1 + offset] = line
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("language", ["sql", "python"])
def test_hardly_any_example_is_left_out(language: str) -> None:
    assert len(left_out(language)) <= FEW, left_out(language)


def test_every_block_names_its_language() -> None:
    nameless = [
        f"{page.name}:{block.first_line}" for page in written_pages() for block in page.blocks("")
    ]
    assert nameless == []


def test_first_example_of_the_readme_has_twelve_lines_at_most() -> None:
    (readme,) = [page for page in PAGES if page.name == "README.md"]
    assert len(readme.blocks("sql")[0].lines) <= 12
