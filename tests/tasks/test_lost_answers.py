"""The database did it, and its answer was lost: the call is repeated, and knows its own work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.tasks import LeaseLost, NewTask, Stats, Status
from tests.fixtures.proxy import Moment
from tests.tasks.proxies import proxied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from penstock.tasks.store import TaskStore
    from tests.fixtures.proxy import Proxy
    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg18", "mariadb")
COMMIT = b"commit"
ACK = b"set status = 'done'"


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    with proxied(place) as found:
        yield found


@pytest.fixture
async def store(place: Place, proxy: Proxy) -> AsyncIterator[TaskStore]:
    """A store whose one connection goes through the proxy, and is open already."""
    async with place.opened(pool_size=1) as found:
        await found.now()
        yield found


async def test_an_insert_is_not_its_own_duplicate(store: TaskStore, proxy: Proxy):
    task = NewTask("mail", dedupe_key="k")
    lost = proxy.cut_at(COMMIT, Moment.AFTER)
    assert await store.insert(task) == task.id
    assert lost.is_set()
    assert await store.stats() == Stats(queued=1)


@pytest.fixture
async def task(store: TaskStore) -> Any:
    """Reserved while answers still came."""
    await store.insert(NewTask("mail", max_attempts=2))
    [task] = await store.reserve("w")
    return task


@pytest.mark.parametrize(
    ("result", "words"), [(None, ACK), (b"sent", COMMIT)], ids=["plain", "with a result"]
)
async def test_an_ack_is_known_again(
    store: TaskStore, task: Any, proxy: Proxy, result: bytes | None, words: bytes
):
    lost = proxy.cut_at(words, Moment.AFTER)
    await store.ack(task.lease, result=result)
    assert lost.is_set()
    assert await store.stats() == Stats(done=1)
    assert await store.result(task.id) == result


async def test_a_release_is_known_again(store: TaskStore, task: Any, proxy: Proxy):
    lost = proxy.cut_at(COMMIT, Moment.AFTER)
    assert await store.release(task.lease, reason="again") is Status.QUEUED
    assert lost.is_set()
    assert await store.stats() == Stats(queued=1)


async def test_a_burial_is_known_again_and_leaves_one_letter(
    store: TaskStore, task: Any, proxy: Proxy
):
    lost = proxy.cut_at(COMMIT, Moment.AFTER)
    await store.move_to_dlq(task.lease, "no use")
    assert lost.is_set()
    assert [each.reason for each in await store.list_dlq()] == ["no use"]


async def test_a_lease_that_is_not_ours_stays_lost(store: TaskStore, task: Any, proxy: Proxy):
    await store.cancel(task.id)
    lost = proxy.cut_at(ACK, Moment.AFTER)
    with pytest.raises(LeaseLost):
        await store.ack(task.lease)
    assert lost.is_set()
    assert (await store.stats()).done == 0
