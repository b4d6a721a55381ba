"""The session as it comes: what Spark would print, and what its processes start with."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started

from penstock.spark import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def embedded(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    if request.config.getoption("--spark-remote") or request.config.getoption("--spark-master"):
        pytest.skip("of a session in this process")
    return spark


@pytest.fixture
def uncaught(embedded: SparkSession) -> Iterator[list[str]]:
    """What ends a thread of Java's."""
    found: list[str] = []

    class Handler:
        def uncaughtException(self, _thread: Any, problem: Any) -> None:  # noqa: N802 - Java's
            found.append(problem.toString())

        class Java:
            implements = ("java.lang.Thread$UncaughtExceptionHandler",)

    gateway = embedded.sparkContext._gateway
    assert gateway is not None
    ensure_callback_server_started(gateway)
    gateway.jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(Handler())
    yield found
    gateway.jvm.java.lang.Thread.setDefaultUncaughtExceptionHandler(None)


def test_a_stream_stopped_in_the_middle_of_a_batch_ends_quietly(
    embedded: SparkSession, tmp_path: Path, uncaught: list[str]
) -> None:
    begun = threading.Event()

    def work(batch: DataFrame, number: int) -> None:
        begun.set()
        batch.sparkSession.range(10**12).selectExpr("sum(id * id % 7)").collect()

    clock = embedded.readStream.format("rate").load()
    writer = clock.writeStream.foreachBatch(work)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert begun.wait(60)
    # As far as the call from which it has to be torn away.
    time.sleep(1)
    query.stop()
    assert uncaught == []


def test_python_processes_find_the_package_and_not_its_archive(embedded: SparkSession) -> None:
    def where(_: int) -> str:
        import pyspark  # asked over there

        return pyspark.__file__

    [found] = embedded.sparkContext.parallelize([1], 1).map(where).collect()
    assert ".zip" not in found


def test_a_python_that_somebody_chose_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/another")
    spark_session.choose_python(local=True)
    assert os.environ["PYSPARK_PYTHON"] == "/usr/bin/another"


def test_a_cluster_gets_a_python_that_other_machines_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    spark_session.choose_python(local=True)
    here = os.environ["PYSPARK_PYTHON"]
    assert Path(here).is_file()
    spark_session.choose_python(local=False)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    spark_session.choose_python(local=True)
    assert os.environ["PYSPARK_PYTHON"] == here
