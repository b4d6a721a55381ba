"""The dashboard's pages of tasks, on each kind of database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.tasks import NewTask, Status
from tests.dashboard.visitor import NOWHERE, VIEWER, Page, Visitor, give_up_soon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from penstock.tasks import TaskId
    from penstock.tasks.store import TaskStore
    from tests.fixtures.databases import Database
    from tests.tasks.backends import Place

both = pytest.mark.backends("mariadb", "pg18")


@pytest.fixture
async def operator(place: Place, database: Database) -> AsyncIterator[Visitor]:
    """Tasks in one database, the queues and the audit in another."""
    visitor = await Visitor.of(database.dsn, task_dsns=(place.dsn,)).log_in()
    yield visitor
    await visitor.close()


async def standing(store: TaskStore, *ids: TaskId) -> list[str]:
    found = [await store.get(each) for each in ids]
    return [each.status.value for each in found if each is not None]


async def killed(store: TaskStore, topic: str = "invoice") -> TaskId:
    """A task with a dead letter."""
    task_id = await store.insert(NewTask(topic, b'{"n": 1}'))
    (task,) = await store.reserve("worker-7", topics=[topic])
    await store.move_to_dlq(task.lease, "no such customer")
    return task_id


def audit(db: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    return db.execute(
        "select action, (detail ->> 'count')::int, (detail ->> 'done')::int "
        "from penstock.list_actions() order by id"
    ).fetchall()


@both
async def test_tasks_and_dead_tasks_are_shown(place: Place, store: TaskStore) -> None:
    await store.insert(NewTask("mail", b"{}", tenant_id="<b>acme"))
    await store.insert(NewTask("invoice", b"{}"))
    (task,) = await store.reserve("worker-7", topics=["invoice"])
    await store.move_to_dlq(task.lease, "<script>no</script>")
    visitor = Visitor.of("host=127.0.0.1 port=1", task_dsns=(place.dsn,))
    await visitor.log_in()
    text = " ".join(Page(await visitor.shown("/tasks")).text.split())
    assert "<b>acme" in text
    assert "Dead letters" in text
    assert "<script>no</script>" in text
    assert "invoice" in Page(await visitor.shown("/tasks", status="dead")).text
    alone = Page(await visitor.shown("/tasks", topic="mail", tenant="<b>acme")).text
    assert "<script>no</script>" not in alone
    assert "<b>acme" in alone
    await visitor.close()


@both
async def test_one_task_is_shown_with_payload_attempts_and_error(
    operator: Visitor, store: TaskStore
) -> None:
    task_id = await killed(store)
    text = Page(await operator.shown("/task", shelf=0, id=task_id)).text
    assert '"n": 1' in text
    assert "no such customer" in text
    assert "dead" in text
    assert (await operator.get("/task", shelf=0, id="nobody")).status_code == 404
    assert (await operator.get("/task", shelf=7, id=task_id)).status_code == 400
    binary = await store.insert(NewTask("mail", b"\xff\x00\x80"))
    assert "base64:/wCA" in Page(await operator.shown("/task", shelf=0, id=binary)).text


@both
async def test_tasks_are_cancelled_and_the_way_back_queues_them(
    operator: Visitor, store: TaskStore, db: psycopg.Connection[Any]
) -> None:
    ids = [await store.insert(NewTask("mail", b"{}")) for _ in range(3)]
    (running,) = await store.reserve("worker-7")
    await store.ack(running.lease)
    done = await operator.act_on_tasks("cancel", id=ids)
    assert sorted(await standing(store, *ids)) == ["dead", "dead", "done"]
    page = await operator.shown(done.headers["location"])
    assert "2 of 3 chosen" in page
    assert "Undo: retry" in page
    await operator.act_on_tasks("retry", id=ids)
    assert sorted(await standing(store, *ids)) == ["done", "queued", "queued"]
    assert audit(db) == [("task cancel", 3, 2), ("task retry", 3, 2)]
    assert "task cancel" in await operator.shown("/audit")


@both
async def test_dead_tasks_are_retried_one_by_one_or_replayed_together(
    operator: Visitor, store: TaskStore, db: psycopg.Connection[Any]
) -> None:
    ids = [await killed(store, topic) for topic in ("a", "b", "c")]
    await operator.act_on_tasks("retry", id=ids[0])
    assert await standing(store, *ids) == ["queued", "dead", "dead"]
    assert len(await store.list_dlq()) == 2
    done = await operator.act_on_tasks("replay")
    assert await standing(store, *ids) == ["queued", "queued", "queued"]
    assert "2 of them" in await operator.shown(done.headers["location"])
    assert audit(db) == [("task retry", 1, 1), ("task replay", 0, 2)]


@both
async def test_nothing_is_done_to_tasks_without_a_tick_a_yes_and_the_right(
    operator: Visitor, store: TaskStore, database: Database, db: psycopg.Connection[Any]
) -> None:
    task_id = await store.insert(NewTask("mail", b"{}"))
    token = await operator.form_token()
    form = {"action": "cancel", "shelf": 0, "id": task_id, "sure": "yes"}
    wrong = [
        {**form, "form_token": token, "sure": ""},
        {**form, "form_token": token, "action": "drop"},
        {**form, "form_token": token, "shelf": 1},
        {**form, "form_token": token, "id": []},
        {**form, "form_token": "another"},
    ]
    for each in wrong:
        assert (await operator.post("/task/act", **each)).status_code in (400, 403), each
    foreign = await operator.post("/task/act", origin="http://evil", **form, form_token=token)
    assert foreign.status_code == 403
    assert (await operator.get("/task/confirm", action="cancel", shelf=0)).status_code == 400
    await operator.log_in(VIEWER)
    token = await operator.form_token()
    assert (await operator.post("/task/act", **form, form_token=token)).status_code == 403
    assert "Cancel chosen" not in await operator.shown("/tasks")
    assert await standing(store, task_id) == [Status.QUEUED]
    assert audit(db) == []


@pytest.mark.backends("pg18")
async def test_what_cannot_be_remembered_is_not_done(
    place: Place, store: TaskStore, database: Database, db: psycopg.Connection[Any]
) -> None:
    """A login that may count but not act: the audit refuses it before a task is touched."""
    task_id = await store.insert(NewTask("mail", b"{}"))
    db.execute("create role counts_only login in role penstock_monitor")
    try:
        dsn = f"{database.dsn} user=counts_only"
        visitor = await Visitor.of(dsn, task_dsns=(place.dsn,)).log_in()
        assert (await visitor.act_on_tasks("cancel", id=task_id)).status_code == 403
        await visitor.close()
    finally:
        db.execute("drop role counts_only")
    assert await standing(store, task_id) == [Status.QUEUED]


@pytest.mark.backends("pg18")
async def test_a_deed_that_fails_is_not_remembered(
    database: Database,
    place: Place,
    db: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give_up_soon(monkeypatch)
    visitor = await Visitor.of(database.dsn, task_dsns=(NOWHERE,)).log_in()
    answer = await visitor.act_on_tasks("replay")
    assert answer.status_code == 503
    assert "secret-word" not in answer.text + await visitor.shown("/tasks")
    assert audit(db) == []
    await visitor.close()
