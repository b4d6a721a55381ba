"""A dashboard on a database of the test's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.dashboard.visitor import Visitor
from tests.sql.caller import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import psycopg

    from tests.fixtures.databases import Database


@pytest.fixture
def mq(db: psycopg.Connection[Any]) -> Caller:
    return Caller(db)


@pytest.fixture
async def visitor(database: Database) -> AsyncIterator[Visitor]:
    """Somebody who has not logged in."""
    made = Visitor.of(database.dsn)
    yield made
    await made.close()


@pytest.fixture
async def operator(visitor: Visitor) -> Visitor:
    return await visitor.log_in()
