"""One Spark for all of these tests, and short ways to read and write with it.

`spark` runs inside the test process.  `pytest --spark-master spark://…` or `--spark-remote sc://…`
runs the same suites elsewhere; tests/spark/test_cluster.py does so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.spark import session
from penstock.spark.source.columns import schema as columns_of
from penstock.spark.source.driver_connection import conninfo
from penstock.spark.source.source_options import read_options
from penstock.spark.source.stream_reader import PenstockStreamReader
from penstock.spark.spark_session import STACK
from tests.fixtures.spark import SHORT_LIVED
from tests.spark.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures.databases import Database

_HERE = "tests/spark/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Whoever comes first waits for Spark to start.
        if _HERE in item.path.as_posix() and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[SparkSession]:
    """A session in this process, or where the command line says."""
    master = request.config.getoption("--spark-master")
    remote = request.config.getoption("--spark-remote")
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.log.level": "FATAL",
        "spark.driver.extraJavaOptions": f"{STACK} {SHORT_LIVED}",
    }
    made = session(
        None if remote else (master or "local[2]"),
        remote,
        name="penstock tests",
        settings={} if remote else settings,
    )
    yield made
    made.stop()


@pytest.fixture
def jobs(spark: SparkSession, database: Database, tmp_path: Path) -> Jobs:
    """Reads and writes of this test's database."""
    return Jobs(spark, database.tcp_dsn, tmp_path)


@pytest.fixture
def stream(database: Database) -> Iterator[Callable[..., PenstockStreamReader]]:
    """A stream reader as Spark's driver drives it, without Spark around it."""
    made: list[PenstockStreamReader] = []

    def make(**options: Any) -> PenstockStreamReader:
        given = {name: str(value) for name, value in options.items()}
        checked = read_options(given, stream=True)
        wanted = columns_of(checked.entity, checked.columns, kafka_headers=checked.kafka_headers)
        made.append(PenstockStreamReader(conninfo(database.dsn, None, None), checked, wanted))
        return made[-1]

    yield make
    for reader in made:
        reader.stop()
