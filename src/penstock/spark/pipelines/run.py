"""One run of a pipeline: its Spark session, its database, its state, and its summary."""

# ruff: noqa: PLC0415 - Spark is imported when it is wanted

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from penstock import embedded
from penstock.errors import InvalidSetting
from penstock.settings import Settings
from penstock.spark.pipelines import engine_calls
from penstock.spark.pipelines.failures import plain_errors
from penstock.spark.pipelines.progress import Teller, Watcher, silence
from penstock.spark.pipelines.state import State, default_location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import ModuleType

    from pyspark.sql import SparkSession

_SETTINGS = {
    # Whatever the zone of machine or cluster: days of an archive are days in UTC.
    "spark.sql.session.timeZone": "UTC",
    # On a busy machine a Python worker may need more than the usual 15 seconds to start.
    "spark.python.authenticate.socketTimeout": "2m",
}


class RunOptions(TypedDict, total=False):
    """What every pipeline takes besides its own arguments."""

    url: str | None
    """The database.  Default: PENSTOCK_DSN, else the embedded PostgreSQL."""
    spark: SparkSession | None
    """A session to use and to leave open; without one, the active one, else a new one."""
    master: str | None
    """A cluster to run on, such as spark://host:7077.  Default: embedded, local[*]."""
    remote: str | None
    """A Spark Connect server to run on, such as sc://host:15002."""
    conf: Mapping[str, str] | None
    """More Spark settings for a new session."""
    once: bool
    """Do what is there and end (True, the default), or go on until stopped."""
    every: timedelta
    """How often a run that goes on looks for more."""
    state: str | Path | None
    """The folder with the checkpoint and the ledger.  Default: one per pipeline and arguments."""
    on_lost_offset: str
    """What to do when a fail-over or a restore lost what the state stands on: fail (the default),
    or rewind, which reads again from the newest point that was not lost."""
    watch: Watcher
    """A callback that gets the progress."""
    spark_log: Path | None
    """Where the log of a new JVM goes."""


@dataclass(slots=True)
class Run:
    pipeline: str
    spark: SparkSession
    url: str
    state: State
    once: bool
    every: timedelta
    teller: Teller
    on_lost_offset: str = "fail"
    began: float = field(default_factory=time.monotonic)

    def summary(self, *, lag: int | None = None, **details: Any) -> Summary:
        """What was done so far."""
        return Summary(
            self.pipeline,
            self.teller.rows,
            time.monotonic() - self.began,
            self.teller.batches,
            self.teller.rejected,
            lag,
            self.state.location,
            details,
        )


_KNOWN = frozenset(RunOptions.__annotations__)


@contextmanager
def started(
    pipeline: str, options: RunOptions, *marks: object, state: str | None = None
) -> Iterator[Run]:
    """Everything a pipeline needs, closed at its end; `marks` tell its state from others'."""
    if unknown := options.keys() - _KNOWN:
        raise InvalidSetting(
            f"{pipeline} has no option named {', '.join(sorted(unknown))}; "
            f"besides its own it takes {', '.join(sorted(_KNOWN))}"
        )
    with ExitStack() as closing:
        teller = Teller(pipeline, options.get("watch", silence))
        teller.tell(phase="starting")
        url = _database(options.get("url"), closing)
        chosen = options.get("state") or state
        if chosen is None:
            chosen = default_location(pipeline, engine_calls.identity(url), *marks)
        memory = State(
            str(chosen) if "://" in str(chosen) else str(Path(chosen).expanduser().absolute())
        )
        closing.enter_context(memory.held())
        spark = options.get("spark") or closing.enter_context(
            open_session(
                master=options.get("master"),
                remote=options.get("remote"),
                conf=options.get("conf"),
                log=options.get("spark_log"),
            )
        )
        pickle_code_by_value(spark)
        every = options.get("every", timedelta(seconds=1))
        with plain_errors():
            yield Run(
                pipeline,
                spark,
                url,
                memory,
                options.get("once", True),
                every,
                teller,
                options.get("on_lost_offset", "fail"),
            )


def _database(url: str | None, closing: ExitStack) -> str:
    settings = Settings.load(dsn=url)
    if settings.dsn is not None:
        return settings.dsn
    server = closing.enter_context(embedded.server(settings=settings))
    return server.dsn


@contextmanager
def open_session(
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


def pickle_code_by_value(spark: SparkSession) -> None:
    """Send what pipelines run on executors along with the job: they may not have the package."""
    if not is_local(spark):
        from pyspark import cloudpickle

        for package in executor_code():
            cloudpickle.register_pickle_by_value(package)  # type: ignore[no-untyped-call]


def executor_code() -> list[ModuleType]:
    """The packages whose functions run on executors."""
    from penstock.spark import lake, pipelines

    return [lake, pipelines]


def missing(problem: ModuleNotFoundError) -> InvalidSetting:
    """What to do about a library that only pipelines need."""
    return InvalidSetting(f"pipelines need {problem.name}: pip install 'penstock-mq[spark]'")


@contextmanager
def _stderr_into(log: Path | None) -> Iterator[None]:
    """A JVM inherits stderr when it starts: its log goes to a file and not to the terminal."""
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


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did; `details` has what only one kind of pipeline knows."""

    pipeline: str
    rows: int
    seconds: float
    batches: int = 0
    rejected: int = 0
    lag: int | None = None
    state: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def facts(self) -> dict[str, Any]:
        """One flat mapping, the most important first."""
        found: dict[str, Any] = {"pipeline": self.pipeline, "rows": self.rows}
        if self.rejected:
            found["rejected"] = self.rejected
        found["batches"] = self.batches
        found["seconds"] = round(self.seconds, 1)
        found["rows_per_second"] = round(self.rows_per_second)
        if self.lag is not None:
            found["lag"] = self.lag
        found |= self.details
        if self.state is not None:
            found["state"] = self.state
        return found


def utc(moment: datetime) -> datetime:
    """The same moment in UTC; one without a zone is in this process's own."""
    return moment.astimezone(UTC)
