"""Fixtures for every test; each lives in the file of its duty under `fixtures/`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis

if TYPE_CHECKING:
    import pytest

pytest_plugins = [
    "tests.fixtures.servers",
    "tests.fixtures.databases",
    "tests.fixtures.distribution",
    "tests.fixtures.pgbouncer",
    "tests.fixtures.proxy",
    "tests.fixtures.spark",
]


def pytest_configure(config: pytest.Config) -> None:
    """Tests of every change take the same examples, so that a red run is red again,
    and longer programmes look for new ones."""
    hypothesis.settings.register_profile("steady", derandomize=True)
    if config.option.markexpr == "not prove":
        hypothesis.settings.load_profile("steady")
