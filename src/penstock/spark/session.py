"""A Spark session that works out of the box: embedded, on a cluster, or through Spark Connect."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from penstock.spark import java, pythons

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

# When a stream is stopped in the middle of foreachBatch, Spark looks at the error's text with a
# pattern that calls itself for every character; with Java's usual stack that ends in an overflow.
STACK = "-Xss8m"
_EMBEDDED = {
    "spark.driver.extraJavaOptions": STACK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # One machine: a shuffle into 200 pieces costs more than it spreads.
    "spark.sql.shuffle.partitions": "4",
}


def session(
    master: str | None = None,
    remote: str | None = None,
    *,
    name: str = "penstock",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process, with the data source ready.

    Without arguments Spark runs inside this process (`local[*]`); `master` names a cluster,
    `remote` a Spark Connect server (`sc://host:15002`).
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - JAVA_HOME comes first

    local = remote is None and (master or "local").startswith("local")
    builder = SparkSession.builder.appName(name)
    if remote is not None:
        builder = builder.remote(remote)
    else:
        prepare(local=local)
        builder = builder.master(master or "local[*]")
    for key, value in {**(_EMBEDDED if local else {}), **(settings or {})}.items():
        builder = builder.config(key, value)
    made: SparkSession = builder.getOrCreate()
    return made


def prepare(*, local: bool = False) -> None:
    """What must be settled before Java starts: which Java, which Python, how the two talk."""
    found = java.home()
    if found is not None:
        os.environ["JAVA_HOME"] = str(found)
    pythons.choose(local=local)
    # Rows through a Unix socket instead of TCP: a sixth more of them.
    os.environ.setdefault("PYSPARK_UDS_MODE", "true")
    # Arrow in Java checks every value against the bounds of its buffer unless it is told not to.
    os.environ.setdefault("ARROW_ENABLE_UNSAFE_MEMORY_ACCESS", "true")
    os.environ.setdefault("ARROW_ENABLE_NULL_CHECK_FOR_GET", "false")


def attach(spark: SparkSession) -> None:
    """Make format("penstock") known to a cluster that has not got the package.

    Where it is installed, on driver and executors, Spark finds the source by itself.  Where it is
    only here, the code travels with the job; the executors need pyarrow, psycopg and
    adbc-driver-postgresql all the same.
    """
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415

    from penstock.spark.travel import travelling_source  # noqa: PLC0415

    spark.dataSource.register(travelling_source(DataSource))
