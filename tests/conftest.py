"""Fixtures for every test; each lives in the file of its duty under `fixtures/`."""

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.databases",
    "tests.fixtures.pgbouncer",
    "tests.fixtures.proxy",
    "tests.fixtures.spark",
]
