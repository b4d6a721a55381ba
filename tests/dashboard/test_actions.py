"""What an operator can do: it happens, it is remembered, and it is asked about first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from tests.client._async.test_standby import CANCEL, absent_standby
from tests.dashboard.visitor import Visitor
from tests.fixtures.patience import eventually_async

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Database
    from tests.sql.caller import Caller

__all__ = ["absent_standby"]
QUEUE = "mails & more/<b>"


def stocked(mq: Caller) -> list[int]:
    """Three dead letters, one claimed, one waiting."""
    mq("create_queue", QUEUE, "t", max_delivery_attempts=1)
    ids = mq.publish_many("t", [1, 2, 3, 4, 5])
    mq.consume(QUEUE, 4)
    for message in ids[:3]:
        mq.nack(QUEUE, message, error="boom")
    return ids


def counts(mq: Caller) -> tuple[int, int, int, bool]:
    row = mq.rows("queue_overview")[0]
    return row.waiting, row.claimed, row.dead, row.paused_at is not None


async def test_pause_resume_and_the_way_back(operator: Visitor, mq: Caller) -> None:
    stocked(mq)
    done = await operator.act("pause", QUEUE)
    assert counts(mq) == (1, 1, 3, True)
    page = await operator.shown(done.headers["location"])
    assert "Paused" in page
    assert "Undo: resume" in page
    await operator.act("resume", QUEUE)
    assert counts(mq) == (1, 1, 3, False)
    audit = await operator.shown("/audit")
    assert audit.index("resume") < audit.index("pause</span>")
    assert [(row.actor, row.action, row.target) for row in mq.rows("list_actions")] == [
        ("operator at 127.0.0.1", "resume", QUEUE),
        ("operator at 127.0.0.1", "pause", QUEUE),
    ]


async def test_dead_letters_are_requeued_and_deleted_one_some_or_all(
    operator: Visitor, mq: Caller
) -> None:
    ids = stocked(mq)
    done = await operator.act("requeue", QUEUE, id=ids[0])
    assert counts(mq) == (2, 1, 2, False)
    assert "Put dead letters back into" in await operator.shown(done.headers["location"])
    await operator.act("delete", QUEUE, id=[ids[1]])
    assert counts(mq) == (2, 1, 1, False)
    assert mq.state(QUEUE, ids[1]) is None or mq.state(QUEUE, ids[1]) != "dead"
    assert (await operator.act("delete", QUEUE, id=[ids[1]])).status_code == 404
    await operator.act("requeue", QUEUE)
    assert counts(mq) == (3, 1, 0, False)
    assert [row.detail for row in mq.rows("list_actions")] == [
        None,
        {"ids": [ids[1]], "count": 1},
        {"ids": [ids[0]], "count": 1},
    ]


async def test_purging_needs_a_tick(operator: Visitor, mq: Caller) -> None:
    stocked(mq)
    assert "can't be undone" in (
        await operator.shown("/confirm", action="purge", queue=QUEUE)
    ).replace("&#39;", "'")
    token = await operator.form_token()
    unsure = await operator.post("/act", form_token=token, action="purge", queue=QUEUE)
    assert unsure.status_code == 400
    assert counts(mq) == (1, 1, 3, False)
    await operator.act("purge", QUEUE)
    assert counts(mq) == (0, 0, 3, False)
    await operator.act("delete", QUEUE)
    assert counts(mq) == (0, 0, 0, False)


@pytest.mark.parametrize("action", ["pause", "requeue", "delete", "purge"])
async def test_what_fails_is_not_remembered_as_done(
    operator: Visitor, mq: Caller, action: str
) -> None:
    answer = await operator.act(action, "no such queue")
    assert answer.status_code == 404
    assert mq.rows("list_actions") == []


async def test_a_login_that_may_only_count_shows_counts_and_no_more(
    database: Database, mq: Caller
) -> None:
    ids = stocked(mq)
    mq.db.execute("create role only_counts login in role penstock_monitor")
    try:
        visitor = await Visitor.of(f"{database.dsn} user=only_counts").log_in()
        assert "mails &amp; more" in await visitor.shown("/")
        page = await visitor.shown("/queue", name=QUEUE, state="dead")
        assert "may not look at messages" in page
        assert "boom" not in page
        assert (await visitor.get("/message", queue=QUEUE, id=ids[0])).status_code == 403
        for path in ("/workers", "/readers", "/schedules", "/storage", "/audit"):
            await visitor.shown(path)
        before = counts(mq)
        for action in ("pause", "resume", "requeue", "delete", "purge"):
            assert (await visitor.act(action, QUEUE)).status_code == 403, action
        assert counts(mq) == before
        await visitor.close()
    finally:
        mq.db.execute("drop role only_counts")


async def test_counting_is_done_with_the_monitors_rights(operator: Visitor, mq: Caller) -> None:
    async with operator.app.state.dashboard.database.looking() as connection:
        cursor = await connection.execute("select current_user, current_setting('role')")
        assert await cursor.fetchone() == ("penstock_monitor", "penstock_monitor")
        cursor = await connection.execute("select current_setting('transaction_read_only')")
        assert await cursor.fetchone() == ("on",)


@pytest.mark.usefixtures("absent_standby")
async def test_what_no_standby_confirmed_is_not_called_done(
    database: Database, db: psycopg.Connection[Any]
) -> None:
    db.execute("select penstock.create_queue('q', 't')")
    dsn = make_conninfo(database.dsn, options="-c synchronous_commit=on")
    visitor = await Visitor.of(dsn).log_in()
    acting = asyncio.create_task(visitor.act("pause", "q"))
    await eventually_async(lambda: db.execute(CANCEL).fetchall())
    answer = await acting
    assert answer.status_code == 500
    assert "standby" in answer.text
    assert are_paused(db) == [True]
    await visitor.close()


def are_paused(db: psycopg.Connection[Any]) -> list[bool]:
    """Whether each queue is paused."""
    rows = db.execute("select paused_at is not null from penstock.queue_overview()")
    return [paused for (paused,) in rows]
