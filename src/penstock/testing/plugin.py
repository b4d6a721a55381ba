"""The pytest plugin: a throw-away database with the engine for each test that asks for one.

Fixtures: `penstock_dsn`, `penstock_clock`, `penstock_mq` (async, with pytest-asyncio) and
`penstock_sync_mq`.  The server is a PostgreSQL of the session's own, or one of yours, named with
`--penstock-dsn` or PENSTOCK_TEST_DSN, where databases may be created.

pytest loads this in every project that has Penstock installed, so all else is imported when needed.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import penstock
    import penstock.sync
    from penstock.testing.databases import Clock, Databases

_VARIABLE = "PENSTOCK_TEST_DSN"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that names a server of the user's own."""
    parser.getgroup("penstock").addoption(
        "--penstock-dsn",
        default=None,
        help=f"a PostgreSQL on which to create test databases (or {_VARIABLE}); "
        "without one, a server is started for the session",
    )


@pytest.fixture(scope="session")
def penstock_databases(request: pytest.FixtureRequest) -> Iterator[Databases]:
    """The maker of test databases, on the session's server."""
    from penstock.testing.databases import Databases  # noqa: PLC0415

    given = request.config.getoption("--penstock-dsn") or os.environ.get(_VARIABLE)
    if given:
        databases = Databases(given)
        yield databases
        databases.close()
        return
    from penstock.testing import server  # noqa: PLC0415

    with server.running("penstock", server.any_binaries()) as running:
        yield Databases(running.dsn("postgres"))


@pytest.fixture
def penstock_dsn(penstock_databases: Databases) -> Iterator[str]:
    """Where the test's own database is; it has the engine and nothing else."""
    with penstock_databases.fresh() as dsn:
        yield dsn


@pytest.fixture
def penstock_clock(penstock_dsn: str) -> Clock:
    """The clock of the test's database: `penstock_clock.advance(seconds=31)`."""
    from penstock.testing.databases import Clock  # noqa: PLC0415

    return Clock(penstock_dsn)


@pytest.fixture
def penstock_sync_mq(penstock_dsn: str) -> Iterator[penstock.sync.Client]:
    """An open `penstock.sync` client on the test's database."""
    import penstock.sync  # noqa: PLC0415

    with penstock.sync.connect(penstock_dsn) as mq:
        yield mq


if find_spec("pytest_asyncio") is not None:
    import pytest_asyncio

    @pytest_asyncio.fixture
    async def penstock_mq(penstock_dsn: str) -> AsyncIterator[penstock.Client]:
        """An open client on the test's database."""
        import penstock  # noqa: PLC0415

        async with penstock.connect(penstock_dsn) as mq:
            yield mq
