"""Tables made by us, by hand as the seed says, by script, or under other names."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidSetting, UnusableConnection
from penstock.tasks import (
    DuplicateTask,
    NewTask,
    Policy,
    Replayed,
    Stats,
    Status,
    Tables,
    TablesMissing,
    TaskTooLarge,
    connect,
)
from penstock.tasks import open_store as store_for
from tests.docs.pages import ROOT, Page
from tests.tasks import mariadb, seed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.tasks.store import TaskStore
    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg", "mariadb")
MINUTE = timedelta(minutes=1)


def run(place: Place, *statements: str) -> list[Any]:
    return place.backend.run(place, *statements)  # type: ignore[attr-defined]


@pytest.fixture
async def seeded(bare_place: Place) -> AsyncIterator[TaskStore]:
    """A store on tables that somebody made by hand, with the seed's own words."""
    tables = seed.MYSQL if bare_place.backend.name == "mariadb" else seed.POSTGRES
    run(bare_place, *tables, *seed.INDEXES)
    async with bare_place.opened(attempt_log=True) as store:
        yield store


async def test_a_table_made_by_hand_works(seeded: TaskStore):
    ids = await seeded.insert_many([NewTask("mail", b"p", priority=p) for p in (10, 30, 20)])
    first, second = await seeded.reserve("w", topics=["mail"], limit=2, lease=10 * MINUTE)
    assert [first.id, second.id] == [ids[1], ids[2]]
    await seeded.ack((await lease_of(seeded, first)).lease)
    assert await seeded.release(second.lease, delay=5 * MINUTE, reason="no") is Status.QUEUED
    [third] = await seeded.reserve("w", limit=9, lease=10 * MINUTE)
    await seeded.extend_lease(third.lease, 11 * MINUTE)
    await seeded.move_to_dlq(third.lease, "no use")
    assert await seeded.replay_dlq() == Replayed(1, 0)
    seeded.shift_clock(6 * MINUTE)
    taken = await seeded.reserve("w", limit=9, policy=Policy(fair=True, running_per_tenant=5))
    assert [task.id for task in taken] == [ids[2], ids[0]]
    assert await seeded.stats() == Stats(leased=2, done=1)
    assert [each.success for each in await seeded.attempts(ids[1])] == [True]


async def lease_of(store: TaskStore, task: Any) -> Any:
    """The task as stored: whole seconds make the lease end a little earlier or later."""
    return await store.get(task.id)


async def test_a_table_made_by_hand_keeps_keys_unique(seeded: TaskStore):
    first = await seeded.insert(NewTask("mail", dedupe_key="k"))
    with pytest.raises(DuplicateTask) as caught:
        await seeded.insert(NewTask("mail", dedupe_key="k"))
    assert caught.value.task_id == first


async def test_the_doctor_says_what_to_improve_in_a_table_made_by_hand(
    seeded: TaskStore, bare_place: Place
):
    wrong = {each.name: each for each in await seeded.check() if not each.ok}
    words = " ".join(f"{each.name} {each.advice}" for each in wrong.values())
    if bare_place.backend.name == "mariadb":
        for hint in ("LONGBLOB", "DATETIME(6)", "binary collation", "claim order"):
            assert hint in words
    else:
        assert "index (topic, priority DESC, created_at)" in words
        assert "idx_mq_tasks_ready" in words
    assert all(each.advice for each in wrong.values())


async def test_the_doctor_is_content_with_our_own_tables(store: TaskStore):
    assert [each for each in await store.check() if not each.ok] == []


@pytest.mark.backends("mariadb")
async def test_the_guides_alter_table_leaves_the_doctor_content(
    seeded: TaskStore, bare_place: Place
):
    task_id = await seeded.insert(NewTask("mail", b"p", delay=MINUTE))
    before = await seeded.get(task_id)
    [block] = Page(ROOT / "docs" / "guides" / "tasks.md").blocks("mysql")
    statements = "\n".join(line for line in block.lines if not line.startswith("--"))
    run(bare_place, *filter(None, (each.strip() for each in statements.split(";"))))
    store = bare_place.store()
    await store.create_tables()
    try:
        assert [each for each in await store.check() if not each.ok] == []
        assert await store.get(task_id) == before
        store.shift_clock(2 * MINUTE)
        assert [task.id for task in await store.reserve("w")] == [task_id]
    finally:
        await store.close()


@pytest.mark.backends("mariadb")
async def test_a_payload_that_a_blob_would_cut_short_is_refused(
    bare_place: Place, seeded: TaskStore
):
    # A server that is not strict would cut it, and say nothing.
    run(bare_place, "set global sql_mode = ''")
    try:
        async with bare_place.opened() as store:
            with pytest.raises(TaskTooLarge):
                await store.insert(NewTask("mail", b"x" * 70_000))
            assert await store.stats() == Stats()
    finally:
        run(bare_place, "set global sql_mode = default")


async def test_creating_the_tables_twice_changes_nothing(place: Place, store: TaskStore):
    task_id = await store.insert(NewTask("mail"))
    await store.create_tables()
    assert await store.get(task_id) is not None


async def test_without_tables_the_error_says_what_to_do(bare_place: Place):
    with pytest.raises(TablesMissing, match="penstock task init"):
        await bare_place.store().open()


async def test_tables_can_have_other_names(bare_place: Place):
    tables = Tables("jobs", "jobs_dead", "jobs_log", "jobs_results", "jobs_waiting")
    store = bare_place.store(tables=tables, attempt_log=True)
    try:
        await store.create_tables()
        await store.insert_many([NewTask("mail", max_attempts=1), NewTask("mail")])
        one, two = await store.reserve("w", limit=2)
        await store.release(one.lease)
        await store.ack(two.lease, result=b"r")
        assert await store.result(two.id) == b"r"
        assert len(await store.attempts(one.id)) == 1
        assert await store.replay_dlq() == Replayed(1, 0)
        assert [each for each in await store.check() if not each.ok] == []
    finally:
        await store.close()
    assert run(bare_place, "select count(*) from jobs") in ([(2,)], [[2]])


@pytest.mark.backends("pg")
async def test_tables_can_stand_in_a_schema_of_their_own(bare_place: Place):
    run(bare_place, "create schema app")
    names = ("tasks", "dead", "log", "results", "waiting")
    store = bare_place.store(tables=Tables(*(f"app.{name}" for name in names)))
    try:
        await store.create_tables()
        await store.insert(NewTask("mail"))
        assert len(await store.reserve("w")) == 1
    finally:
        await store.close()


async def test_the_sql_file_makes_the_tables_by_itself(bare_place: Place):
    run_file(bare_place)
    async with bare_place.opened() as store:
        await store.insert(NewTask("mail"))
        assert [each for each in await store.check() if not each.ok] == []


def run_file(place: Place) -> None:
    """As a person would, with the database's own program."""
    server = place.backend.server  # type: ignore[attr-defined]
    if isinstance(server, mariadb.Outside):
        pytest.skip("the server's own program is on its machine")
    if place.backend.name == "mariadb":
        words = [mariadb.program("mariadb"), "--no-defaults", "-uroot"]
        words += [f"--socket={server.socket}", place.name]
    else:
        words = [server.binaries.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
        words += ["-d", place.dsn]
    kind = "mysql" if place.backend.name == "mariadb" else "postgres"
    script = resources.files("penstock.tasks.stores").joinpath(f"{kind}_schema.sql")
    subprocess.run(words, input=script.read_bytes(), check=True)


# Servers with settings of their own


@pytest.mark.backends("mariadb")
async def test_strict_mode_off_and_a_far_time_zone_change_nothing(bare_place: Place):
    run(bare_place, "set global sql_mode = ''", "set global time_zone = '+13:00'")
    try:
        store = bare_place.store()
        await store.create_tables()
        try:
            before = await store.now()
            task_id = await store.insert(NewTask("mail", expires_at=before + MINUTE))
            task = await store.get(task_id)
            assert task is not None
            assert before <= task.created_at <= await store.now()
            assert task.expires_at == before + MINUTE
            assert len(await store.reserve("w", lease=MINUTE)) == 1
            store.shift_clock(2 * MINUTE)
            assert await store.reserve("w") == []
        finally:
            await store.close()
    finally:
        run(bare_place, "set global sql_mode = default", "set global time_zone = 'SYSTEM'")


@pytest.mark.backends("pg")
async def test_a_far_time_zone_changes_nothing_on_postgresql(place: Place):
    run(place, f"alter database {place.name} set timezone = 'Pacific/Auckland'")
    run(place, f"alter database {place.name} set default_transaction_isolation = 'serializable'")
    async with place.opened() as store:
        before = await store.now()
        task_id = await store.insert(NewTask("mail", available_at=before + MINUTE))
        task = await store.get(task_id)
        assert task is not None
        assert (task.available_at, task.created_at >= before) == (before + MINUTE, True)
        store.shift_clock(MINUTE)
        assert len(await store.reserve("w")) == 1


@pytest.mark.backends("mariadb")
async def test_the_callers_transaction_is_for_postgresql(store: TaskStore):
    with pytest.raises(UnusableConnection):
        await store.insert(NewTask("mail"), connection=object())


# DSNs


@pytest.mark.backends("memory")
@pytest.mark.parametrize(
    "dsn",
    ["", "redis://localhost", "mysql://", "mysql://host", "mysql://h:99999/db", "mysql://h/db?x=1"],
)
def test_a_dsn_that_says_nothing_is_refused(dsn: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PENSTOCK_DSN", raising=False)
    with pytest.raises(InvalidSetting):
        store_for(dsn)


@pytest.mark.backends("memory")
def test_a_password_is_never_shown():
    store = store_for("mysql://ada:s3cret@host/db")
    assert "s3cret" not in repr(store._database.address)  # type: ignore[attr-defined]


@pytest.mark.backends("mariadb")
async def test_a_user_with_a_password_connects_by_tcp(place: Place):
    if mariadb.Outside.given():
        pytest.skip("every test connects to it with a password by TCP")
    run(
        place,
        "create or replace user 'ada'@'127.0.0.1' identified by 'p@ss/w:rd'",
        f"grant all on {place.name}.* to 'ada'@'127.0.0.1'",
    )
    port = place.backend.server.port  # type: ignore[attr-defined]
    dsn = f"mariadb://ada:p%40ss%2Fw%3Ard@127.0.0.1:{port}/{place.name}"
    async with connect(dsn) as queue:
        await queue.enqueue("mail")
        assert await queue.stats() == Stats(queued=1)
    run(place, "drop user 'ada'@'127.0.0.1'")


async def test_connect_gives_a_queue_for_the_dsn(place: Place):
    async with connect(place.dsn, pool_size=2) as queue:
        task_id = await queue.enqueue("mail", {"to": "ada"}, tenant_id="acme")
        task = await queue.get(task_id)
        assert task is not None
        assert task.json() == {"to": "ada"}
        assert await queue.stats() == Stats(queued=1)
        assert await queue.cancel(task_id)
        assert await queue.result(task_id) is None
