"""The Spark session of a pipeline: the caller's, the process's own, or a new one."""

# ruff: noqa: PLC0415 - Spark is imported when it is wanted

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

_SETTINGS = {
    # Whatever the zone of machine or cluster: days of an archive are days in UTC.
    "spark.sql.session.timeZone": "UTC",
    # On a busy machine a Python worker may need more than the usual 15 seconds to start.
    "spark.python.authenticate.socketTimeout": "2m",
}


@contextmanager
def opened(
    *,
    master: str | None = None,
    remote: str | None = None,
    conf: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> Iterator[SparkSession]:
    """A session that knows the source `penstock`; ended if it was started here."""
    if master and remote:
        raise InvalidSetting("choose one: --master for a cluster, --remote for a Connect server")
    running = _running()
    if running is not None:
        yield running
        return
    spark = _start(master, remote, _SETTINGS | dict(conf or {}), log)
    try:
        yield spark
    finally:
        spark.stop()


def _running() -> SparkSession | None:
    """A program that has a session keeps it: a process has one JVM."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _start(
    master: str | None, remote: str | None, conf: dict[str, str], log: Path | None
) -> SparkSession:
    try:
        from penstock.spark import attach, session
    except ModuleNotFoundError as problem:
        raise missing(problem) from None
    with _stderr_into(log):
        spark = session(master, remote, settings=conf)
    if not is_local(spark):
        attach(spark)
    return spark


def is_local(spark: SparkSession) -> bool:
    """Whether everything runs in this process and its children."""
    connect = type(spark).__module__.startswith("pyspark.sql.connect")
    return not connect and str(spark.sparkContext.master).startswith("local")


def let_code_travel(spark: SparkSession) -> None:
    """What pipelines run on executors goes along with the job: they may not have the package."""
    if not is_local(spark):
        from pyspark import cloudpickle

        from penstock.spark import pipelines

        cloudpickle.register_pickle_by_value(pipelines)  # type: ignore[no-untyped-call]


def missing(problem: ModuleNotFoundError) -> InvalidSetting:
    """What to do about a library that only pipelines need."""
    return InvalidSetting(f"pipelines need {problem.name}: pip install 'penstock-mq[spark]'")


@contextmanager
def _stderr_into(log: Path | None) -> Iterator[None]:
    """A JVM inherits stderr when it starts: its log goes to a file, not over a person's screen."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as stream:
        os.dup2(stream.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
