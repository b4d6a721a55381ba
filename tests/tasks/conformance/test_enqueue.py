"""What is stored when a task is inserted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from penstock.tasks.errors import DuplicateTask, InvalidTask, TaskExpired
from penstock.tasks.task import NewTask, Priority, Status, TaskId, encoded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.tasks.store import TaskStore

FAR = datetime(2199, 12, 31, 23, 59, 59, 123456, tzinfo=UTC)


def _deep() -> list[object]:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    return deep


async def test_a_new_task_is_queued_with_the_defaults_of_the_seed(store: TaskStore):
    task_id = await store.insert(NewTask("mail", b"hello"))
    task = await store.get(task_id)
    assert task is not None
    assert (task.status, task.attempts, task.max_attempts, task.priority) == (
        Status.QUEUED,
        0,
        5,
        20,
    )
    assert (task.payload, task.meta, task.dedupe_key, task.lease_owner) == (b"hello", None) + (
        None,
    ) * 2
    assert task.available_at == task.created_at == task.updated_at


def test_priorities_have_the_levels_of_the_seed():
    assert {each.name: each.value for each in Priority} == {
        "LOWEST": 0,
        "LOW": 10,
        "NORMAL": 20,
        "HIGH": 30,
        "HIGHEST": 40,
    }


@pytest.mark.parametrize("size", [0, 1, 70_000, 1 << 20], ids=["none", "1 B", "70 kB", "1 MiB"])
async def test_payloads_come_back_byte_exact(store: TaskStore, size: int):
    payload = (bytes(range(256)) * (size // 256 + 1))[:size]
    await store.insert(NewTask("blobs", payload))
    [task] = await store.reserve("w", topics=["blobs"])
    assert task.payload == payload


async def test_meta_is_json_of_any_depth_and_script(store: TaskStore):
    meta = {"naïve": ["☃", {"n": 1.5, "none": None}], "quote": 'it\'s "so" \\ %s'}
    task_id = await store.insert(NewTask("mail", meta=meta))
    task = await store.get(task_id)
    assert task is not None
    assert task.meta == meta


async def test_times_past_2038_are_kept_to_the_microsecond(store: TaskStore):
    task_id = await store.insert(NewTask("mail", available_at=FAR, expires_at=FAR))
    task = await store.get(task_id)
    assert task is not None
    assert (task.available_at, task.expires_at) == (FAR, FAR)


async def test_moments_in_other_time_zones_are_the_same_moments(store: TaskStore):
    there = FAR.astimezone(timezone(timedelta(hours=13)))
    task_id = await store.insert(NewTask("mail", expires_at=there))
    task = await store.get(task_id)
    assert task is not None
    assert task.expires_at == FAR


async def test_an_id_can_be_chosen_and_is_taken_once(store: TaskStore):
    await store.insert(NewTask("mail", id=TaskId("invoice-7")))
    with pytest.raises(DuplicateTask) as caught:
        await store.insert(NewTask("mail", id=TaskId("invoice-7")))
    assert caught.value.task_id == "invoice-7"


async def test_names_with_quotes_and_percent_signs_are_only_names(store: TaskStore):
    strange = "a'b\"c%s\\d;-- %(id)s"
    task_id = await store.insert(NewTask(strange, tenant_id=strange, dedupe_key=strange))
    [task] = await store.reserve(strange, topics=[strange], tenant_id=strange)
    assert (task.id, task.topic, task.lease_owner) == (task_id, strange, strange)
    await store.ack(task.lease)


@pytest.mark.parametrize("apart", ["Mail", "maïl", "mail ", "mail\t"])
async def test_names_that_differ_a_little_are_different(store: TaskStore, apart: str):
    for name in ("mail", apart):
        await store.insert(NewTask("t", tenant_id="acme", dedupe_key=name, id=TaskId(name)))
        await store.insert(NewTask("t", tenant_id=name, dedupe_key="key"))
        await store.insert(NewTask(name))
    [task] = await store.reserve("w", topics=["mail"], limit=10)
    assert task.topic == "mail"
    of_tenant = await store.reserve("w", topics=["t"], tenant_id=apart, limit=10)
    assert [task.tenant_id for task in of_tenant] == [apart]
    assert (await store.stats()).total == 6


async def test_a_batch_is_stored_in_its_order(store: TaskStore):
    names = [TaskId(f"{number:04}") for number in range(50)][::-1]
    ids = await store.insert_many([NewTask("mail", id=name) for name in names])
    assert ids == names
    taken = await store.reserve("w", topics=["mail"], limit=50)
    assert [task.id for task in taken] == names


async def test_a_batch_with_a_duplicate_is_stored_whole_or_not_at_all(store: TaskStore):
    first = await store.insert(NewTask("mail", dedupe_key="k"))
    with pytest.raises(DuplicateTask) as caught:
        await store.insert_many([NewTask("mail"), NewTask("mail", dedupe_key="k"), NewTask("mail")])
    assert caught.value.task_id == first
    assert (await store.stats()).queued == 1


async def test_duplicates_in_a_batch_can_be_left_out(store: TaskStore):
    first = await store.insert(NewTask("mail", dedupe_key="k"))
    tasks = [NewTask("mail", dedupe_key=key) for key in ("a", "k", "b", "a", None)]
    ids = await store.insert_many(tasks, skip_duplicates=True)
    assert ids == [tasks[0].id, first, tasks[2].id, tasks[0].id, tasks[4].id]
    assert (await store.stats()).queued == 4


async def test_an_empty_batch_is_nothing(store: TaskStore):
    assert await store.insert_many([]) == []


async def test_a_task_that_has_expired_is_refused(store: TaskStore):
    with pytest.raises(TaskExpired):
        await store.insert(NewTask("mail", expires_at=datetime(2001, 1, 1, tzinfo=UTC)))
    with pytest.raises(TaskExpired):
        await store.insert(NewTask("mail", expires_in=timedelta(0)))
    assert (await store.stats()).total == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": ""},
        {"topic": "x" * 256},
        {"topic": "a\0b"},
        {"topic": "\ud800"},
        {"tenant_id": ""},
        {"tenant_id": "x" * 65},
        {"dedupe_key": "x" * 129},
        {"id": "x" * 65},
        {"payload": "text"},
        {"priority": 2**31},
        {"max_attempts": 0},
        {"meta": {"a": float("nan")}},
        {"meta": {"a": b"bytes"}},
        {"meta": {"a": "\0"}},
        {"meta": {"a": "\\\0"}},
        {"meta": {"a": "\ud800"}},
        {"meta": {"a": _deep()}},
        {"available_at": datetime(2030, 1, 1)},  # noqa: DTZ001 - that is the point
        {"delay": timedelta(1), "available_at": FAR},
        {"expires_in": timedelta(1), "expires_at": FAR},
        {"delay": timedelta(-1)},
        {"dedupe": timedelta(0)},
    ],
    ids=lambda fields: str(fields)[:40] if "meta" not in fields else "meta",
)
def test_what_can_not_be_stored_is_refused_at_once(fields: dict[str, object]):
    with pytest.raises(InvalidTask):
        NewTask(**{"topic": "mail", **fields})  # type: ignore[arg-type]


def test_meta_may_speak_of_u0000():
    assert NewTask("mail", meta={"a": "\\u0000"}).meta == {"a": "\\u0000"}


@pytest.mark.parametrize("payload", ["\ud800", {"a": "\ud800"}, {"a": float("nan")}, _deep()])
def test_a_payload_that_is_no_text_and_no_json_is_refused(payload: Any):
    with pytest.raises(InvalidTask, match="the payload"):
        encoded(payload)


async def test_many_enqueues_at_once_are_all_stored(
    open_store: Callable[..., Awaitable[TaskStore]],
):
    # Two stores, so that a pooler lends each session to both in turn.
    stores = [await open_store(pool_size=4) for _ in range(2)]
    tasks = [NewTask("mail") for _ in range(160)]
    stored = await asyncio.gather(
        *(stores[number % 2].insert(task) for number, task in enumerate(tasks))
    )
    assert stored == [task.id for task in tasks]
    reserved = [await store.reserve("w", limit=9) for store in stores for _ in range(9)]
    assert len({task.id for taken in reserved for task in taken}) == 160
