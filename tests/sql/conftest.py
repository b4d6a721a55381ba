"""What the tests of the SQL interface share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures import cluster
from tests.sql.caller import Caller

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg


@pytest.fixture
def mq(db: psycopg.Connection[Any]) -> Caller:
    """The engine's functions, called as their owner."""
    return Caller(db)


@pytest.fixture
def second_server(server: cluster.Server) -> Iterator[cluster.Server]:
    """A cluster of its own, of the same version: other transaction ids, no roles of ours."""
    with cluster.running(f"{server.name}-second", server.binaries) as second:
        yield second
