"""Fixtures of the worker's tests: a client on the test's own database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.databases import Database


@pytest.fixture
async def mq(database: Database) -> AsyncIterator[penstock.Client]:
    """An open client, with a topic "orders" and a queue "billing" on it."""
    async with penstock.connect(database.dsn) as client:
        await client.create_queue("billing", topic="orders")
        yield client
