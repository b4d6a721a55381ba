"""What the tests of the async client need; `_sync/conftest.py` is its blocking twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.pgbouncer import Route


@pytest.fixture
async def mq(route: Route) -> AsyncIterator[penstock.Client]:
    """An open client of the test's database, on each route to it."""
    async with penstock.connect(route.dsn, pooler=route.pooler) as client:
        yield client


@pytest.fixture
async def orders(mq: penstock.Client) -> str:
    """The name of a topic with one queue, "billing"."""
    await mq.create_queue("billing", topic="orders")
    return "orders"
