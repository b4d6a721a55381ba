"""What the tests of the blocking client need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.sync import Client, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.pgbouncer import Route


@pytest.fixture
def mq(route: Route) -> Iterator[Client]:
    """An open client of the test's database, on each route to it."""
    with connect(route.dsn, pooler=route.pooler) as client:
        yield client


@pytest.fixture
def orders(mq: Client) -> str:
    """The name of a topic with one queue, "billing"."""
    mq.create_queue("billing", topic="orders")
    return "orders"
