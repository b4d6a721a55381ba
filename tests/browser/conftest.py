"""One browser and one well-filled database for all tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.browser import browsers
from tests.fixtures.databases import _created
from tests.sql.caller import Caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, Page

    from tests.fixtures.cluster import Server
    from tests.fixtures.databases import Administrator

# Loaded machines are slow; a test never waits this long when all is well.
PATIENCE_MILLISECONDS = 30_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = browsers.program()
    if found is None:
        pytest.skip("chromium is not installed; tools/debian_packages.sh installs it as root")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Containers run as root, where Chromium's own sandbox can't.
        made = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture(scope="module")
def shop(
    server: Server, template: str, administrator: Administrator
) -> Iterator[tuple[Caller, str]]:
    """The engine, and the address of its dashboard, which shows the tasks of the database too."""
    with (
        _created(server, template, administrator) as database,
        psycopg.connect(database.dsn, autocommit=True) as db,
        browsers.serving(database.dsn, task_dsns=(database.dsn,)) as address,
    ):
        yield Caller(db), address


@pytest.fixture
def visit(browser: Browser, shop: tuple[Caller, str]) -> Iterator[Callable[..., Page]]:
    """Open a page in a fresh window, logged in unless told otherwise; no script may fail in it."""
    opened: list[Any] = []
    complaints: list[str] = []

    def open_page(path: str = "/", *, token: str | None = browsers.OPERATOR, **how: Any) -> Page:
        window = browser.new_context(base_url=shop[1], **how)
        window.set_default_timeout(PATIENCE_MILLISECONDS)
        opened.append(window)
        page = window.new_page()
        page.on("pageerror", lambda problem: complaints.append(str(problem)))
        page.on(
            "console",
            lambda line: complaints.append(line.text) if line.type == "error" else None,
        )
        page.expose_function("pwned", lambda number: complaints.append(f"string {number} ran"))
        if token is not None:
            page.goto("/login")
            page.fill("#token", token)
            page.press("#token", "Enter")
            page.wait_for_selector("main#content")
        page.goto(path)
        return page

    yield open_page
    for window in opened:
        window.close()
    assert complaints == []
