"""One Spark for all pipelines, that of the data source's tests, and a shop to run them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.pipelines.shop import Shop
from tests.spark.conftest import spark

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

    from tests.fixtures.databases import Database

__all__ = ["spark"]

_HERE = "tests/pipelines/"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.as_posix():
            # One story of each pipeline is always told; the others run Spark for minutes.
            if _runs_spark(item) and item.get_closest_marker("always") is None:
                item.add_marker(pytest.mark.prove)
            # Whoever comes first waits for Spark to start.
            if _runs_spark(item) and item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))


def _runs_spark(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return "shop" in names or "spark" in names or item.path.name == "test_command.py"


@pytest.fixture
def shop(
    spark: SparkSession, database: Database, db: psycopg.Connection[Any], tmp_path: Path
) -> Shop:
    """A database with messages, and pipelines that run on it."""
    return Shop(spark, database.tcp_dsn, db, tmp_path)
