"""Links lead somewhere, tests named as proof exist, and no page is out of reach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from prove.parts import PARTS
from tests.docs.pages import ROOT, Page, every_page

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", every_page(), ids=lambda page: page.name)
def test_internal_links_resolve(page: Page) -> None:
    broken = [link.target for link in page.links if not _resolves(page, link.target)]
    assert broken == []


def _resolves(page: Page, target: str) -> bool:
    if re.match(r"[a-z]+:", target):
        return True
    path, _, anchor = target.partition("#")
    file = (page.path.parent / path).resolve() if path else page.path
    if not file.exists() or ROOT not in (file, *file.parents):
        return False
    return not anchor or anchor in Page(file).anchors


def _proofs() -> list[tuple[str, str, Path]]:
    """Links whose text is the name of a test."""
    return [
        (page.name, link.text.strip("`"), (page.path.parent / link.target).resolve())
        for page in every_page()
        for link in page.links
        if link.text.strip("`").startswith("test_")
    ]


def test_tests_named_as_proof_exist() -> None:
    missing = [
        (page, test)
        for page, test, file in _proofs()
        if not re.search(rf"^(async )?def {test}\(", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_guarantee_of_the_readme_names_a_test() -> None:
    readme = Page(ROOT / "README.md").text
    table = readme.split("## What is guaranteed")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) >= 10
    parts = "|".join(PARTS)
    shown = re.compile(rf"\]\((tests/|docs/proof\.md#({parts})\))")
    assert [row for row in rows if not shown.search(row)] == []


def test_every_page_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    reached, waiting = {index}, [index]
    while waiting:
        page = Page(waiting.pop())
        for link in page.links:
            file = (page.path.parent / link.target.partition("#")[0]).resolve()
            if file.suffix == ".md" and file.exists() and file not in reached:
                reached.add(file)
                waiting.append(file)
    pages = {page.path for page in every_page() if (ROOT / "docs") in page.path.parents}
    assert pages - reached == set()


def test_pages_named_in_the_code_exist() -> None:
    for folder, kind in (("sql", "*.sql"), ("src", "*.py"), ("bench", "*.py")):
        for file in (ROOT / folder).rglob(kind):
            for name in re.findall(r"docs/[\w/.-]+\.md", file.read_text(encoding="utf-8")):
                assert (ROOT / name).is_file(), f"{file.name} names {name}"


def test_no_page_names_a_place_on_one_machine() -> None:
    for page in every_page():
        found = re.search(r"(?<![\w.:/])/(work|home|root|Users|tmp|opt)/", page.text)
        assert found is None, page.name
