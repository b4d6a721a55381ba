"""analyse: the history of queues as tables and as an HTML report.

The small tables of figures are written whole: a reader sees the old ones or the new ones.
"""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.errors import InvalidSetting
from penstock.spark.lake import Format, Lake, open_lake
from penstock.spark.lake.lake_table import Wanted
from penstock.spark.pipelines import analyse_figures, stream_options
from penstock.spark.pipelines.analyse_figures import TABLES
from penstock.spark.pipelines.batch_loop import Batch, each_batch
from penstock.spark.pipelines.report import Report, render
from penstock.spark.pipelines.report.axes import bucket_for
from penstock.spark.pipelines.run import Run, RunOptions, started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Summary

_WEEK = timedelta(days=7)
_DIRTY = "dirty_days.json"


def analyse(
    target: str | Path,
    *,
    topics: str | Sequence[str] | None = None,
    queues: str | Sequence[str] | None = None,
    format: Format | str = Format.DELTA,
    period: timedelta = _WEEK,
    title: str = "What became of the messages",
    report: str | Path | None = None,
    group: str | None = None,
    start: str = "earliest",
    max_rows: int | None = 1_000_000,
    **run: Unpack[RunOptions],
) -> Summary:
    """Read the history since the last run, bring the tables up to date, and write the report.

    The tables `attempts` (one row per message and attempt), `hours`, `queues`, `keys`, `tenants`
    and `reasons` stand below the target; the report is `report.html` there, unless told otherwise.
    """
    root = Path(target).expanduser().absolute()
    if Format(format) is Format.ICEBERG:
        raise InvalidSetting("analyse writes delta or parquet tables")
    lake = open_lake(str(root / "attempts"), format, by=("queue", "day"))
    page = Path(report).expanduser().absolute() if report else root / "report.html"
    with started("analyse", run, state=str(root / "_penstock")) as going:
        work = _Analysis(
            going,
            lake,
            written=Tables(root, Format(format)),
            period=period,
            title=title,
            page=page,
        )
        name = group or stream_options.default_group("analyse", going)
        asked = stream_options.reading(going, name, start, max_rows) | _history(
            going, topics, queues
        )
        each_batch(going, asked, work)
        work.publish()
        return going.summary(report=str(page), tables=str(root))


def _history(
    run: Run, topics: str | Sequence[str] | None, queues: str | Sequence[str] | None
) -> dict[str, str]:
    """What is asked of a stream of receipts."""
    asked = {"entity": "receipts", "columns": ",".join(analyse_figures.FACT_COLUMNS)}
    if topics is not None:
        wanted = stream_options.names(topics)
        stream_options.check_topics(run, wanted)
        asked |= stream_options.subscription(wanted)
    if queues is not None:
        asked["queue"] = ",".join(stream_options.names(queues))
    return asked


class _Analysis:
    """Adds batches of receipts to the facts, and makes tables and page of them."""

    def __init__(
        self,
        run: Run,
        lake: Lake,
        *,
        written: Tables,
        period: timedelta,
        title: str,
        page: Path,
    ) -> None:
        self._run, self._lake, self._tables = run, lake, written
        self._period, self._title, self._page = period, title, page

    def __call__(self, frame: DataFrame, batch: Batch) -> int:
        made = analyse_figures.facts_of(frame).persist()
        try:
            self._note_days({str(row["day"]) for row in made.select("day").distinct().collect()})
            written = self._lake.write(made, batch.stream, batch.number)
        finally:
            made.unpersist()
        if not self._run.once:
            self.publish()
        return written

    def _note_days(self, days: set[str]) -> None:
        """Note days whose hours have to be counted again, before their facts are written."""
        before = set(self._run.state.read(_DIRTY) or [])
        self._run.state.write(_DIRTY, sorted(before | days))

    def publish(self) -> None:
        """Tables and page from all facts of the period."""
        self._run.teller.tell(phase="computing figures")
        found = self._facts()
        span = None if found is None else analyse_figures.period(found)
        if found is None or span is None:
            self._write(Report(self._title, datetime.now(UTC)))
            return
        made = {
            name: analyse_figures.table(found, name)
            for name in analyse_figures.TABLES
            if name != "hours"
        }
        for name, rows in made.items():
            self._tables.write(name, rows)
        self._count_hours()
        size = bucket_for(span[1] - span[0])
        self._write(self._report(found, made, span, size))
        found.unpersist()

    def _count_hours(self) -> None:
        """Hours are kept for good; those of days with new facts are counted anew."""
        days = self._run.state.read(_DIRTY) or []
        if not days:
            return
        first, last = (
            datetime.fromisoformat(f"{day}T00:00:00+00:00") for day in (min(days), max(days))
        )
        frame = self._lake.read(self._run.spark, Wanted(since=first, until=last))
        rows = analyse_figures.table(frame.where(frame["day"].cast("string").isin(days)), "hours")
        self._tables.write_days("hours", rows, days)
        self._run.state.write(_DIRTY, [])

    def _facts(self) -> DataFrame | None:
        if not self._lake.exists():
            return None
        since = datetime.now(UTC) - self._period
        frame = self._lake.read(self._run.spark, Wanted(since=since))
        return frame.where(frame["ended_at"] >= since).persist()

    def _report(
        self,
        found: DataFrame,
        made: dict[str, Any],
        span: tuple[datetime, datetime],
        size: timedelta,
    ) -> Report:
        return _named_shortly(
            Report(
                title=self._title,
                made_at=datetime.now(UTC),
                since=span[0],
                until=span[1],
                bucket=size,
                queues=analyse_figures.queues(made["queues"]),
                buckets=analyse_figures.buckets(found, size),
                histogram=analyse_figures.histogram(found),
                reasons=analyse_figures.reasons(made["reasons"]),
                keys=analyse_figures.groups(made["keys"], "key"),
                tenants=analyse_figures.groups(made["tenants"], "tenant_id"),
                tables=self._tables.locations(),
            )
        )

    def _write(self, report: Report) -> None:
        self._page.parent.mkdir(parents=True, exist_ok=True)
        new = self._page.with_name(f".{self._page.name}.new")
        new.write_text(render(report))
        new.replace(self._page)


def _named_shortly(report: Report) -> Report:
    names = analyse_figures.short_names([each.queue for each in report.queues])

    def renamed(rows: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(replace(row, queue=names.get(row.queue, row.queue)) for row in rows)

    return replace(
        report,
        queues=renamed(report.queues),
        buckets=renamed(report.buckets),
        histogram=renamed(report.histogram),
        reasons=renamed(report.reasons),
        keys=renamed(report.keys),
        tenants=renamed(report.tenants),
    )


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of figures: where they are, and in which format."""

    root: Path
    format: Format

    def write(self, name: str, rows: pa.Table) -> None:
        """Replace the whole table."""
        if self.format is Format.DELTA:
            _replace(str(self.root / name), rows)
        else:
            _write_file(rows, self.root / name)

    def write_days(self, name: str, rows: pa.Table, days: Sequence[str]) -> None:
        """Replace the rows of these days; those of other days stay."""
        if self.format is Format.DELTA:
            listed = ", ".join(f"'{day}'" for day in days)
            _replace(str(self.root / name), rows, f"day in ({listed})")
            return
        for day in days:
            mine = rows.filter(pc.equal(rows["day"].cast(pa.string()), day))
            # The folder has the day: readers would get the column twice.
            _write_file(mine.drop_columns(["day"]), self.root / name / f"day={day}")

    def locations(self) -> dict[str, str]:
        return {name: str(self.root / name) for name in ("attempts", *TABLES)}


def _replace(location: str, rows: pa.Table, predicate: str | None = None) -> None:
    # Workers import this module's package, and need no Delta.
    from penstock.spark.lake import delta  # noqa: PLC0415

    delta.replace(location, rows, predicate)


def _write_file(rows: pa.Table, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / ".part.parquet.new"
    pq.write_table(rows, new, compression="zstd")
    new.replace(folder / "part.parquet")
