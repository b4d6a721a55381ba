"""One run of a pipeline: its session, its database, its state, and who watches it."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from penstock import embedded
from penstock.errors import InvalidSetting
from penstock.settings import Settings
from penstock.spark.pipelines import database, session
from penstock.spark.pipelines.progress import Teller, Watcher, silence
from penstock.spark.pipelines.state import State, default_location
from penstock.spark.pipelines.summary import Summary
from penstock.spark.pipelines.trouble import told_plainly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession


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
    """Is told how it is going."""
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
            chosen = default_location(pipeline, database.identity(url), *marks)
        memory = State(
            str(chosen) if "://" in str(chosen) else str(Path(chosen).expanduser().absolute())
        )
        closing.enter_context(memory.held())
        spark = options.get("spark") or closing.enter_context(
            session.opened(
                master=options.get("master"),
                remote=options.get("remote"),
                conf=options.get("conf"),
                log=options.get("spark_log"),
            )
        )
        session.let_code_travel(spark)
        every = options.get("every", timedelta(seconds=1))
        with told_plainly():
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
