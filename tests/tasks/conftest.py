"""Fixtures of the task tests: `place` is a database with the task tables, `store` an open store.

A test that asks for either runs on the wheel's PostgreSQL, on MariaDB and in memory, and those of
`conformance` through pgbouncer as well; `--server all` adds the machine's PostgreSQL, `--server
mariadb` keeps to one.  PENSTOCK_TEST_MYSQL puts a MySQL or MariaDB that runs already in the place
of the private one.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures.pgbouncer import in_front_of
from tests.fixtures.servers import available
from tests.tasks import mariadb as private
from tests.tasks.backends import Backend, Maria, Memory, Place, Pooled, Postgres

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from penstock.tasks.store import TaskStore
    from tests.fixtures.cluster import Server

POOLED = "pgbouncer"
MARIADB = "mariadb"
MEMORY = "memory"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker("backends")
    wanted = metafunc.config.getoption("--server")
    versions = [f"pg{binaries.major}" for binaries in available().values()]
    pooled = [POOLED] if metafunc.definition.path.parent.name == "conformance" else []
    names = [*(versions if wanted else versions[:1]), *pooled, MARIADB, MEMORY]
    if marker is not None:
        names = [name for name in names if any(name.startswith(each) for each in marker.args)]
    chosen = [name for name in names if not wanted or name in wanted or "all" in wanted]
    metafunc.parametrize("backend", chosen, indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "backends(*names): only these, by the start of their names")


@pytest.fixture(scope="session")
def maria() -> Iterator[private.MariaDB | private.Outside]:
    """A MariaDB of this session's own, or the server that the environment names."""
    outside = private.Outside.given()
    if outside is not None:
        yield outside
        return
    try:
        # What a test writes need not outlive a power cut.
        with private.running("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0") as server:
            yield server
    except private.Missing as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def pooled(embedded18: Server) -> Iterator[Pooled]:
    """The wheel's PostgreSQL behind one pgbouncer, for all tests of this session."""
    with in_front_of(embedded18) as pooler:
        yield Pooled(embedded18, POOLED, pooler=pooler)


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> Backend:
    """Each kind of store in turn."""
    name: str = request.param
    if name == MEMORY:
        return Memory()
    if name == POOLED:
        found: Backend = request.getfixturevalue("pooled")
        return found
    if name == MARIADB:
        return Maria(request.getfixturevalue("maria"))
    fixture = next(key for key, each in available().items() if name == f"pg{each.major}")
    return Postgres(request.getfixturevalue(fixture), name)


@pytest.fixture
def bare_place(backend: Backend) -> Iterator[Place]:
    """A database without tables."""
    made = backend.create()
    try:
        yield made
    finally:
        backend.drop(made)


@pytest.fixture
async def place(bare_place: Place) -> Place:
    """A database with the task tables."""
    store = bare_place.store()
    try:
        await store.create_tables()
    finally:
        await store.close()
    return bare_place


@pytest.fixture
async def open_store(place: Place) -> AsyncIterator[Callable[..., Awaitable[TaskStore]]]:
    """More stores on the test's database: `await open_store(attempt_log=True)`."""
    async with AsyncExitStack() as stack:

        async def opened(**more: Any) -> TaskStore:
            return await stack.enter_async_context(place.opened(**more))

        yield opened


@pytest.fixture
async def store(open_store: Callable[..., Awaitable[TaskStore]]) -> TaskStore:
    """An open store on the test's database."""
    return await open_store()
