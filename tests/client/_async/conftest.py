"""What the tests of the async client need; `_sync/conftest.py` is its blocking twin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.databases import Database


@pytest.fixture
async def mq(database: Database) -> AsyncIterator[penstock.Client]:
    """An open client of the test's database."""
    async with penstock.connect(database.dsn) as client:
        yield client


@pytest.fixture
async def orders(mq: penstock.Client) -> str:
    """The name of a topic with one queue, "billing"."""
    await mq.create_queue("billing", topic="orders")
    return "orders"
