"""One database and one server for each module; a test's queues have names of their own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import schema
from tests.fixtures.servers import available
from tests.sqs.running import Running, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.fixtures.cluster import Server
    from tests.fixtures.databases import Administrator

_TEMPLATE = "penstock_wire_template"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def wire_server(request: pytest.FixtureRequest) -> Server:
    """One PostgreSQL: what differs between versions is the business of tests/sqs_sql."""
    found: Server = request.getfixturevalue(next(iter(available())))
    found.administer(f"drop database if exists {_TEMPLATE}", f"create database {_TEMPLATE}")
    with psycopg.connect(found.dsn(_TEMPLATE)) as conn:
        schema.install(conn)
        conn.execute(
            "select pgqs.configure('recreate_wait', '0'), pgqs.configure('purge_wait', '0')"
        )
    found.administer(f"alter database {_TEMPLATE} allow_connections false")
    return found


def _database(server: Server, administrator: Administrator) -> Iterator[str]:
    name = f"wire_{next(_numbers)}"
    administrator.create(server, name, _TEMPLATE)
    yield server.dsn(name)
    administrator.drop(server, name)


@pytest.fixture(scope="module")
def module_dsn(wire_server: Server, administrator: Administrator) -> Iterator[str]:
    yield from _database(wire_server, administrator)


@pytest.fixture(scope="module")
def door(module_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with signatures checked, shared by the module's tests."""
    with running(module_dsn, tmp_path_factory.mktemp("door")) as found:
        yield found


@pytest.fixture
def fresh_dsn(wire_server: Server, administrator: Administrator) -> Iterator[str]:
    """A database of the test's own: for those who move its clock or stop its server."""
    yield from _database(wire_server, administrator)


@pytest.fixture
def fresh_door(fresh_dsn: str, tmp_path: Path) -> Iterator[Running]:
    with running(fresh_dsn, tmp_path) as found:
        yield found


@pytest.fixture
def new_name() -> Callable[..., str]:
    """Names of queues that no other test has."""
    return lambda kind="q": f"{kind}-{next(_numbers)}"


@pytest.fixture(params=["json", "query"])
def sqs(request: pytest.FixtureRequest, door: Running) -> Any:
    """boto3, in each protocol."""
    client = door.boto3(protocol=request.param)
    yield client
    client.close()
