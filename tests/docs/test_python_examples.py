"""Every Python example of the documentation runs, and prints what the page says.

A page's blocks run in their order, in one process on a fresh database with the engine.  A comment
`# → value` is a promise: that line is printed, after those promised before it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.docs.pages import ROOT, Page, promises, written_pages
from tests.fixtures.spark import SHORT_LIVED_ENVIRONMENT

if TYPE_CHECKING:
    from tests.fixtures.databases import Database

PAGES = [page for page in written_pages() if page.blocks("python")]


# Each starts a Spark of its own; one of them is enough to begin with.
LONG = {"docs/guides/archive-and-replay.md", "docs/guides/from-kafka.md"}


def _marked(page: Page) -> Any:
    return pytest.param(page, id=page.name, marks=[pytest.mark.prove] * (page.name in LONG))


@pytest.mark.timeout(360)
@pytest.mark.parametrize("page", [_marked(page) for page in PAGES])
def test_examples_of_a_page_run_in_order(page: Page, database: Database) -> None:
    url = f"postgresql://penstock@127.0.0.1:{database.server.port}/{database.name}"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.python_examples", str(page.path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **SHORT_LIVED_ENVIRONMENT, "PENSTOCK_DSN": url},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    kept = iter(done.stdout.splitlines())
    broken = [each for each in promises(page, "python", "#") if each not in kept]
    assert not broken, f"{page.name} promises {broken[0]!r}; it printed:\n{done.stdout}"
