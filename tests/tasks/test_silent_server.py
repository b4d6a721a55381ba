"""A server that does not answer: a call ends, and goes on as soon as the server answers again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.errors import CallTimeout, DatabaseUnavailable
from penstock.postgres._async import connections as connection_module
from penstock.tasks import NewTask, Stats
from tests.fixtures.proxy import Way
from tests.tasks.proxies import proxied

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from penstock.tasks.store import TaskStore
    from tests.fixtures.proxy import Proxy
    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg18", "mariadb")
SHORT = timedelta(seconds=0.5)
ONCE = timedelta(0)
# Never reached: it ends a test whose call would go on for ever.
ENOUGH = 60


@pytest.fixture
def proxy(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    monkeypatch.setattr(connection_module, "CANCEL_SECONDS", 0.2)
    with proxied(place) as found:
        yield found


@pytest.fixture
async def store(place: Place, proxy: Proxy) -> AsyncIterator[TaskStore]:
    """A store that tries once, and waits half a second for an answer."""
    async with place.opened(
        pool_size=2, call_timeout=SHORT, connect_timeout=SHORT, retry_for=ONCE
    ) as found:
        yield found
        proxy.heal()
        proxy.cut()


async def test_a_read_ends_when_the_server_is_silent(store: TaskStore, proxy: Proxy):
    proxy.swallowed = Way.BOTH
    async with asyncio.timeout(ENOUGH):
        with pytest.raises(CallTimeout, match=r"did not answer within 0\.5 s"):
            await store.stats()


async def test_an_enqueue_ends_when_the_server_is_silent(store: TaskStore, proxy: Proxy):
    proxy.swallowed = Way.TO_CLIENT
    async with asyncio.timeout(ENOUGH):
        with pytest.raises(CallTimeout):
            await store.insert(NewTask("mail"))


async def test_a_reserve_and_an_ack_end_when_the_server_is_silent(store: TaskStore, proxy: Proxy):
    await store.insert_many([NewTask("mail"), NewTask("mail")])
    [task] = await store.reserve("w")
    proxy.swallowed = Way.BOTH
    async with asyncio.timeout(ENOUGH):
        with pytest.raises(DatabaseUnavailable):
            await store.reserve("w")
        with pytest.raises(DatabaseUnavailable):
            await store.ack(task.lease)


async def test_a_store_on_a_silent_server_does_not_open(place: Place, proxy: Proxy):
    proxy.swallowed = Way.TO_CLIENT
    store = place.store(call_timeout=SHORT, connect_timeout=SHORT, retry_for=ONCE)
    async with asyncio.timeout(ENOUGH):
        with pytest.raises(DatabaseUnavailable):
            await store.open()
    await store.close()


async def test_a_call_goes_on_with_another_connection(place: Place, proxy: Proxy):
    async with place.opened(pool_size=2, call_timeout=SHORT) as store:
        await store.insert(NewTask("mail"))
        proxy.half_open()
        async with asyncio.timeout(ENOUGH):
            task = NewTask("mail")
            assert await store.insert(task) == task.id
            assert await store.stats() == Stats(queued=2)


async def test_a_store_closes_while_the_server_is_silent(place: Place, proxy: Proxy):
    async with asyncio.timeout(ENOUGH):
        async with place.opened(call_timeout=SHORT, connect_timeout=SHORT, retry_for=ONCE) as store:
            await store.insert(NewTask("mail"))
            proxy.swallowed = Way.BOTH
    assert proxy.accepted


async def test_a_call_that_is_cancelled_ends_while_the_server_is_silent(place: Place, proxy: Proxy):
    # Neither its own limits nor its retries would end it in time.
    async with place.opened(call_timeout=timedelta(hours=1)) as store:
        await store.now()
        proxy.swallowed = Way.BOTH
        call = asyncio.create_task(store.stats())
        await asyncio.wait([call], timeout=SHORT.total_seconds())
        call.cancel()
        await asyncio.wait([call], timeout=ENOUGH)
        assert call.cancelled()
        proxy.heal()
        proxy.cut()
