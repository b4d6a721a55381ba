"""The dashboard as a person meets it, in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg.types.json import Jsonb

from penstock.tasks import NewTask, sync
from tests.browser.browsers import VIEWER
from tests.dashboard.hostile import STRINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Page

    from tests.sql.caller import Caller

    Visit = Callable[..., Page]
    Shop = tuple[Caller, str]

PHONE = {"width": 360, "height": 740}


@pytest.fixture
def stocked(shop: Shop, request: pytest.FixtureRequest) -> tuple[Caller, str, list[int]]:
    """A queue of the test's own: three dead letters, one claimed, two waiting."""
    mq, name = shop[0], f"q {request.node.name}"[:60]
    mq("create_queue", name, f"topic {name}", max_delivery_attempts=1)
    ids = mq.publish_many(f"topic {name}", [{"order": n} for n in range(6)])
    mq.consume(name, 4, token="worker-7", vt=600)
    for message in ids[:3]:
        mq.nack(name, message, token="worker-7", error="boom")
    return mq, name, ids


@pytest.fixture
def letters(shop: Shop) -> list[str]:
    """Ten tasks, two of them dead; hostile words wherever a task has words."""
    # The blocking door: the browser's driver keeps an event loop running in this thread.
    queue = sync.connect(shop[0].db.info.dsn, attempt_log=True)
    queue.store.create_tables()
    with queue:
        for words in STRINGS[:10]:
            task = NewTask("mail", words.encode(), tenant_id=words[:64], meta={words: words})
            queue.store.insert(task)
        for leased in queue.store.reserve("worker-7", limit=2):
            queue.store.move_to_dlq(leased.lease, STRINGS[2])
        return [letter.task_id for letter in queue.store.list_dlq()]


def overview(mq: Caller, name: str) -> tuple[int, int, bool]:
    (row,) = [row for row in mq.rows("queue_overview") if row.queue_name == name]
    return row.waiting, row.dead, row.paused_at is not None


def test_a_change_appears_without_reloading(visit: Visit, shop: Shop) -> None:
    page = visit("/")
    page.wait_for_selector("#pulse[data-state=live]")
    page.evaluate("window.neverReloaded = true")
    shop[0]("create_queue", "fresh queue", "fresh")
    page.wait_for_selector("a:has-text('fresh queue')")
    page.focus("a:has-text('fresh queue')")
    focused = page.evaluate("document.activeElement.id")
    shop[0].publish_many("fresh", [1, 2, 3])
    page.wait_for_selector("tr:has(a:text-is('fresh queue')) td:has-text('3')")
    assert page.evaluate("window.neverReloaded") is True
    assert page.evaluate("document.activeElement.id") == focused


def test_every_action_from_question_to_undo(
    visit: Visit, stocked: tuple[Caller, str, list[int]]
) -> None:
    mq, name, _ids = stocked
    page = visit("/")
    page.click(f"tbody a:text-is('{name}')")

    page.click("text='Pause'")
    page.wait_for_selector("dialog[open] >> text=Pause this queue?")
    page.click("dialog >> text='Cancel'")
    assert overview(mq, name) == (2, 3, False)
    page.click("text='Pause'")
    page.click("dialog >> button:text-is('Pause')")
    page.click("text='Undo: resume'")
    assert overview(mq, name) == (2, 3, True)
    page.click("dialog >> button:text-is('Resume')")
    page.wait_for_selector(".done >> text=Resumed")
    assert overview(mq, name) == (2, 3, False)

    page.click("nav >> text='dead'")
    page.click("tbody th a")
    page.click("text='Retry'")
    page.click("dialog >> button:text-is('Requeue')")
    page.wait_for_selector(".done >> text=Put dead letters back")
    assert overview(mq, name) == (3, 2, False)

    page.click(".head >> a:has-text('q ')")
    page.click("nav >> text='dead'")
    page.check("tbody input[type=checkbox] >> nth=0")
    page.click("text='Delete chosen'")
    page.check("dialog >> input[type=checkbox]")
    page.click("dialog >> button:text-is('Delete')")
    page.wait_for_selector(".done >> text=Deleted")
    assert overview(mq, name) == (3, 1, False)

    page.click("text='Requeue all'")
    page.click("dialog >> button:text-is('Requeue')")
    page.wait_for_selector(".done >> text=Put dead letters back")
    assert overview(mq, name) == (4, 0, False)

    page.click("text='Purge'")
    page.click("dialog >> button:text-is('Purge')")
    # The box is not ticked, so the browser holds the form back.
    assert page.is_visible("dialog[open]")
    page.check("dialog >> input[type=checkbox]")
    page.click("dialog >> button:text-is('Purge')")
    page.wait_for_selector(".done >> text=Purged")
    assert overview(mq, name) == (0, 0, False)
    page.click(".done >> text='Audit'")
    assert page.locator(f"tr:has-text('{name}')").count() == 6


def test_tasks_are_retried_cancelled_and_replayed(visit: Visit, letters: list[str]) -> None:
    page = visit("/tasks?status=dead")
    page.click(f"text='{letters[0]}' >> nth=0")
    page.wait_for_selector("text='Dead letters'", state="detached")
    page.click("text='Retry'")
    page.click("dialog >> button:text-is('Retry')")
    page.wait_for_selector(".done >> text=1 of 1 chosen")
    page.click(".head >> text='Cancel'")
    page.click("dialog >> button:text-is('Cancel tasks')")
    page.click("text='Undo: retry'")
    page.click("dialog >> button:text-is('Retry')")
    page.wait_for_selector("h1 >> text=queued")

    page.goto("/tasks?status=queued")
    page.check("tbody input[type=checkbox] >> nth=0")
    page.check("tbody input[type=checkbox] >> nth=1")
    page.click("text='Cancel chosen'")
    page.click("dialog >> button:text-is('Cancel tasks')")
    page.wait_for_selector(".done >> text=2 of 2 chosen")
    page.click("text='Replay all'")
    page.click("dialog >> button:text-is('Replay')")
    page.wait_for_selector(".done >> text=Put dead letters back")
    page.click(".done >> text='Audit'")
    assert page.locator("tr:has-text('task ')").count() == 5


def test_the_keyboard_is_enough(visit: Visit, stocked: tuple[Caller, str, list[int]]) -> None:
    mq, name, _ids = stocked
    page = visit("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.focus(f"tbody a:text-is('{name}')")
    page.keyboard.press("Enter")
    page.wait_for_selector("text='Purge'")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Pause":
            break
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert page.evaluate("document.activeElement.textContent") == "Pause"
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector(".done")
    assert overview(mq, name) == (2, 3, True)


def test_light_and_dark_by_the_system_and_by_choice(visit: Visit) -> None:
    def ground(page: Page) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = (visit("/workers", color_scheme=scheme) for scheme in ("light", "dark"))
    assert ground(light) != ground(dark)
    wanted = ground(dark)
    light.click("#theme")
    assert ground(light) == wanted
    light.reload()
    assert ground(light) == wanted
    light.click("#theme")
    assert ground(light) != wanted


def test_without_scripts_the_same_can_be_done(
    visit: Visit, stocked: tuple[Caller, str, list[int]]
) -> None:
    mq, name, _ids = stocked
    page = visit("/", java_script_enabled=False)
    # The server shows figures of a moment ago, and without scripts the page stays as it is.
    for _ in range(60):
        if page.locator(f"tbody a:text-is('{name}')").count():
            break
        page.wait_for_timeout(500)
        page.reload()
    page.click(f"tbody a:text-is('{name}')")
    page.click("text='Pause'")
    page.wait_for_selector("main >> text=Pause this queue?")
    page.click("button:text-is('Pause')")
    page.wait_for_selector(".done")
    assert overview(mq, name) == (2, 3, True)


def test_a_viewer_finds_no_buttons(visit: Visit, stocked: tuple[Caller, str, list[int]]) -> None:
    page = visit("/", token=VIEWER)
    page.click(f"tbody a:text-is('{stocked[1]}')")
    page.wait_for_selector("h1")
    assert page.locator("[data-confirm]").count() == 0


def test_pages_are_accessible_and_fit_a_phone_in_both_themes(
    visit: Visit, stocked: tuple[Caller, str, list[int]], letters: list[str]
) -> None:
    """Every page with the rules of axe-core; nothing is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    mq, name, ids = stocked
    mq("create_reader", "a reader", f"topic {name}")
    paths = [
        "/",
        f"/queue?name={name}&state=dead",
        f"/message?queue={name}&id={ids[0]}",
        f"/confirm?action=purge&queue={name}",
        "/workers",
        "/readers",
        "/schedules",
        "/tasks",
        f"/task?shelf=0&id={letters[0]}",
        "/storage",
        "/audit",
    ]
    for scheme in ("light", "dark"):
        page = visit("/", color_scheme=scheme, viewport=PHONE, reduced_motion="reduce")
        door = visit("/login", token=None, color_scheme=scheme, viewport=PHONE)
        # The colours of the dark theme are all on the first few.
        for path in ["/login", *(paths if scheme == "light" else paths[:4])]:
            shown = door if path == "/login" else page
            shown.goto(path)
            wide = shown.evaluate("document.documentElement.scrollWidth")
            assert wide <= PHONE["width"], (path, wide)
            found = Axe().run(shown)
            assert found.violations_count == 0, (path, scheme, found.generate_report())
    page = visit("/", viewport={"width": 1280, "height": 900})
    for path in paths[:2]:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280, path
        found = Axe().run(page)
        assert found.violations_count == 0, (path, found.generate_report())


def test_no_hostile_string_runs(visit: Visit, shop: Shop, letters: list[str]) -> None:
    """All hundred at once, in every field; the window's `pwned` would tell which one ran."""
    mq = shop[0]
    mq("create_topic", "hostile")
    mq.query(
        "select penstock.create_queue(name, 'hostile', max_delivery_attempts => 1) "
        "from unnest(%s::text[]) name",
        [*STRINGS, "all hostile"],
    )
    mq.publish_many(
        "hostile",
        [{words: words} for words in STRINGS],
        keys=list(STRINGS),
        headers=[Jsonb({words: words}) for words in STRINGS],
        correlation_ids=list(STRINGS),
    )
    for words in STRINGS:
        for row in mq.consume("all hostile", 1, token=words):
            if words != STRINGS[-1]:
                mq.nack("all hostile", row.message_id, token=words, error=words)
    page = visit("/")
    page.wait_for_selector("#pulse[data-state=live]")
    hostile = ("/queue?name=all+hostile&state=dead", "/workers", "/audit", "/tasks")
    for path in (*hostile, *(f"/task?shelf=0&id={each}" for each in letters)):
        page.goto(path)
        page.wait_for_selector("main")
    page.goto("/queue?name=all+hostile&state=dead")
    page.click("tbody th a >> nth=0")
    page.wait_for_selector("pre.payload")
    page.goto("/")
    page.click("#queue-2")
    page.wait_for_selector("text='Purge'")
    page.click("text='Purge'")
    page.wait_for_selector("dialog[open]")
    assert page.evaluate("document.scripts.length") == 1
    hosts = page.evaluate(
        "performance.getEntriesByType('resource').map((each) => new URL(each.name).host)"
    )
    assert set(hosts) == {page.evaluate("location.host")}
