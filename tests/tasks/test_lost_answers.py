"""The database did it, and its answer was lost: the call is repeated, and knows its own work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.tasks import LeaseLost, NewTask, Stats, Status
from penstock.tasks.mysql import session as mysql
from penstock.tasks.postgres import session as postgres
from penstock.tasks.retrying import Try, persist

if TYPE_CHECKING:
    from penstock.tasks.store import TaskStore
    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg18", "mariadb")


@pytest.fixture
def losing(store: TaskStore, place: Place, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """From now on the first answer of every call is lost, after its commit."""
    lost: list[int] = []
    maria = place.backend.name == "mariadb"
    problem = OSError("cut") if maria else psycopg.OperationalError("cut")

    async def persist_without_answer(once: Any, classify: Any, retry_for: Any) -> Any:
        async def cut(attempt: Try) -> Any:
            found = await once(attempt)
            if attempt.number == 1:
                lost.append(1)
                raise problem
            return found

        return await persist(cut, classify, retry_for)

    monkeypatch.setattr(mysql if maria else postgres, "persist", persist_without_answer)
    return lost


async def test_an_insert_is_not_its_own_duplicate(store: TaskStore, losing: list[int]):
    task = NewTask("mail", dedupe_key="k")
    assert await store.insert(task) == task.id
    assert losing
    assert await store.stats() == Stats(queued=1)


@pytest.fixture
async def task(store: TaskStore) -> Any:
    """Reserved while answers still came."""
    await store.insert(NewTask("mail", max_attempts=2))
    [task] = await store.reserve("w")
    return task


@pytest.mark.parametrize("result", [None, b"sent"], ids=["plain", "with a result"])
async def test_an_ack_is_known_again(
    store: TaskStore, task: Any, losing: list[int], result: bytes | None
):
    await store.ack(task.lease, result=result)
    assert losing
    assert await store.stats() == Stats(done=1)
    assert await store.result(task.id) == result


async def test_a_release_is_known_again(store: TaskStore, task: Any, losing: list[int]):
    assert await store.release(task.lease, reason="again") is Status.QUEUED
    assert losing
    assert await store.stats() == Stats(queued=1)


async def test_a_burial_is_known_again_and_leaves_one_letter(
    store: TaskStore, task: Any, losing: list[int]
):
    await store.move_to_dlq(task.lease, "no use")
    assert losing
    assert [each.reason for each in await store.list_dlq()] == ["no use"]


async def test_a_lease_that_is_not_ours_stays_lost(store: TaskStore, task: Any, losing: list[int]):
    await store.cancel(task.id)
    with pytest.raises(LeaseLost):
        await store.ack(task.lease)
    assert (await store.stats()).done == 0
