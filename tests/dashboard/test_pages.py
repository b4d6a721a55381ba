"""Every page shows what is there, and says what is wrong with what was asked."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from penstock.tasks import NewTask, open_store
from tests.client._async.test_defaults import DEFAULTS, set_defaults
from tests.dashboard.visitor import NOWHERE, Page, Visitor, give_up_soon
from tests.fixtures.clock import advance

if TYPE_CHECKING:
    import httpx

    from tests.fixtures.databases import Connect, Database
    from tests.fixtures.pgbouncer import Route
    from tests.sql.caller import Caller


async def test_overview_shows_every_queue_and_what_needs_attention(
    operator: Visitor, mq: Caller
) -> None:
    assert "No queue yet" in await operator.shown("/")
    mq("create_queue", "billing", "orders", max_delivery_attempts=1)
    mq("create_queue", "mails", "orders", ordering="fifo")
    mq("pause_queue", "mails")
    ids = mq.publish_many("orders", [1, 2, 3])
    mq.consume("billing", 1, token="worker-7")
    mq.nack("billing", ids[0], token="worker-7", error="boom")
    operator.app.state.dashboard.poller.hurry()
    page = Page(await operator.shown("/"))
    words = " ".join(page.text.split())
    assert "dead letters billing 1 message used up its attempts" in words
    assert "paused mails" in words
    assert "2 waiting" in words
    assert f"/queue?{urlencode({'name': 'billing'})}" in page.links
    advance(mq.db, seconds=600)
    operator.app.state.dashboard.poller.hurry()
    assert "old head" in await operator.shown("/")


async def test_a_queue_page_browses_each_state_page_by_page(operator: Visitor, mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=1)
    ids = mq.publish_many("t", list(range(120)), keys=[f"k{n}" for n in range(120)])
    later = mq.publish("t", "later", deliver_after=mq.at(seconds=600))

    def listed(page: str) -> list[int]:
        return [
            int(link.rpartition("=")[2])
            for link in Page(page).links
            if link.startswith("/message?")
        ]

    first = await operator.shown("/queue", name="q")
    assert listed(first) == ids[:50]
    (more,) = [link for link in Page(first).links if "after=" in link]
    second = await operator.shown(more)
    assert listed(second) == ids[50:100]
    assert listed(await operator.shown("/queue", name="q", state="delayed")) == [later]
    mq.consume("q", 2, token="worker-7")
    mq.nack("q", ids[0], token="worker-7", error="it broke")
    claimed = await operator.shown("/queue", name="q", state="claimed")
    assert listed(claimed) == [ids[1]]
    assert "worker-7" in claimed
    dead = await operator.shown("/queue", name="q", state="dead")
    assert listed(dead) == [ids[0]]
    assert "it broke" in dead
    assert "No message is delayed." not in dead


async def test_messages_are_searched(operator: Visitor, mq: Caller) -> None:
    mq("create_queue", "q", "t")
    mq.publish_many("t", [1, 2, 3])
    wanted = mq.publish(
        "t", 4, key="k 1", correlation_id="c&1", headers={"region": "eu", "retries": 3}
    )
    link = f"id={wanted}"
    for by, text in [
        ("key", "k 1"),
        ("correlation", "c&1"),
        ("header", "region = eu"),
        ("header", '{"retries": 3}'),
    ]:
        page = await operator.shown("/queue", name="q", by=by, text=text)
        assert page.count("/message?") == 1, (by, text)
        assert link in page
    assert "None found" in await operator.shown("/queue", name="q", by="key", text="k")
    found = await operator.get("/queue", name="q", by="id", text=str(wanted))
    assert found.headers["location"] == f"/message?queue=q&id={wanted}"
    for by, text, complaint in [
        ("id", "seven", "whole number"),
        ("header", "region", "Write a header"),
        ("header", "{nonsense", "no JSON"),
        ("shoe", "7", "Choose"),
    ]:
        assert complaint in await operator.shown("/queue", name="q", by=by, text=text)


async def test_a_message_page_tells_its_story(operator: Visitor, mq: Caller) -> None:
    mq("create_queue", "q", "t", max_delivery_attempts=2, retry_base_seconds=0)
    message = mq.publish("t", {"n": 7, "text": "x" * 70_000}, key="k", headers={"a": [1]})
    for error in ("first error", "second error"):
        mq.consume("q")
        mq.nack("q", message, error=error)
    page = Page(await operator.shown("/message", queue="q", id=message))
    words = " ".join(page.text.split())
    assert words.index("first error") < words.index("second error")
    assert "Only the beginning is shown" in words
    assert "Retry" in words
    assert '"n": 7' in words
    assert len(page.text) < 80_000


async def test_other_pages_show_what_they_are_for(
    operator: Visitor, mq: Caller, connect: Connect
) -> None:
    for path, words in [
        ("/workers", "No consumer holds or waits"),
        ("/readers", "No reader yet"),
        ("/schedules", "No schedule has fired"),
        ("/tasks", "--tasks-dsn"),
        ("/storage", "messages 1"),
        ("/audit", "No actions yet"),
    ]:
        assert words in await operator.shown(path), path
    mq("create_queue", "q", "t")
    mq("create_reader", "spark stream", "t")
    mq.publish("t")
    mq.consume("q", token="worker-7")
    key = "schedule:nightly:2026-01-01T00:00:00+00:00"
    mq.publish("t", dedupe_key=key, dedupe_window="2 days")
    mq.query("select penstock.open_stream('revenue group', array(select id from penstock.topics))")
    operator.app.state.dashboard.poller._slow.hurry()
    for path, words in [
        ("/workers", "worker-7"),
        ("/readers", "spark stream"),
        ("/readers", "revenue group"),
        ("/schedules", "nightly"),
    ]:
        operator.app.state.dashboard.poller.hurry()
        assert words in await operator.shown(path), path


async def test_tasks_of_every_database_are_shown(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_up_soon(monkeypatch)
    store = open_store(database.dsn)
    await store.create_tables()
    await store.open()
    await store.insert(NewTask("send <mail>", b"{}"))
    await store.close()
    visitor = Visitor.of(database.dsn, task_dsns=(database.dsn, NOWHERE))
    page = await (await visitor.log_in()).shown("/tasks")
    assert "send &lt;mail&gt;" in page
    assert "can't be reached" in Page(page).text
    assert "secret-word" not in page
    assert "send &lt;mail&gt;" not in await visitor.shown("/tasks", status="dead")
    await visitor.close()


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/queue", {"name": "nobody"}, 404),
        ("/queue", {}, 404),
        ("/message", {"queue": "nobody", "id": "1"}, 404),
        ("/message", {"queue": "q", "id": "99999"}, 404),
        ("/message", {"queue": "q", "id": "one"}, 400),
        ("/message", {"queue": "q", "id": "9" * 30}, 400),
        ("/queue", {"name": "q", "after": "'; drop table"}, 400),
        ("/queue", {"name": "q", "state": "lost", "span": "9y"}, 200),
        ("/confirm", {"action": "explode", "queue": "q"}, 400),
        ("/confirm", {"action": "requeue", "queue": "q", "id": "x"}, 400),
        ("/confirm", {"action": "requeue", "queue": "q", "selected": "yes"}, 400),
        ("/events", {"page": "nothing"}, 404),
        ("/audit", {"before": "x"}, 200),
        ("/nowhere", {}, 404),
    ],
)
async def test_a_strange_request_is_answered_plainly(
    operator: Visitor, mq: Caller, path: str, query: dict[str, Any], status: int
) -> None:
    mq("create_queue", "q", "t")
    answer: httpx.Response = await operator.get(path, **query)
    assert answer.status_code == status
    assert "Traceback" not in answer.text


async def test_it_works_through_a_pooler_in_transaction_mode(route: Route, mq: Caller) -> None:
    mq("create_queue", "q", "t", retention="1 hour", filter={"headers": {"a": 1}})
    visitor = await Visitor.of(route.dsn).log_in()
    for _ in range(3):
        visitor.app.state.dashboard.poller.hurry()
        await visitor.shown("/")
    page = Page(await visitor.shown("/queue", name="q")).text
    assert "messages lapse after 1 h" in page
    assert 'filter {"headers": {"a": 1}}' in page
    assert (await visitor.act("pause", "q")).status_code == 303
    assert mq.rows("queue_overview")[0].paused_at is not None
    await visitor.close()


async def test_a_database_that_is_away_is_said_to_be(visitor: Visitor) -> None:
    away = Visitor.of("host=127.0.0.1 port=1 dbname=x connect_timeout=1")
    await away.log_in()
    answer = await away.get("/")
    assert answer.status_code == 503
    await away.close()


@pytest.mark.parametrize("name", DEFAULTS)
async def test_it_works_where_a_database_has_defaults_of_its_own(
    database: Database, connect: Connect, mq: Caller, name: str
) -> None:
    mq("create_queue", "q", "t", retention="1 hour")
    mq.publish("t", 1)
    set_defaults(connect(), name)
    visitor = await Visitor.of(database.dsn).log_in()
    for path in ("/", "/workers", "/readers", "/schedules", "/storage", "/audit"):
        await visitor.shown(path)
    page = Page(await visitor.shown("/queue", name="q")).text
    assert "messages lapse after 1 h" in page
    assert (await visitor.act("pause", "q")).status_code == 303
    async with visitor.app.state.dashboard.database.looking() as connection:
        cursor = await connection.execute("show transaction_isolation")
        assert await cursor.fetchone() == ("read committed",)
    await visitor.close()


async def test_a_server_that_does_not_answer_is_said_to_be_away(
    database: Database, connect: Connect
) -> None:
    visitor = await Visitor.of(database.dsn, call_timeout=timedelta(seconds=0.5)).log_in()
    await visitor.shown("/")
    other = connect(autocommit=False)
    other.execute("lock table penstock_data.queues in access exclusive mode")
    visitor.app.state.dashboard.poller.hurry()
    answer = await visitor.get("/")
    assert answer.status_code == 503
    assert "did not answer within 0.5 s" in answer.text
    other.rollback()
    await visitor.shown("/")
    await visitor.close()
