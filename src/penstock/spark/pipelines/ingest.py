"""ingest: files or a Spark table into a topic, each file once."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pyspark.sql import functions as f

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import engine_calls, failures, ingest_files, publication
from penstock.spark.pipelines.run import Run, RunOptions, started
from penstock.spark.pipelines.state import Chunk, Ledger, work_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Mapping as MappingOf

    from pyspark.sql import Column, DataFrame

    from penstock.spark.pipelines.run import Summary

_SETTLED = timedelta(seconds=2)
# What is about a row and not of it; never part of a payload.
INTERNAL = ("_line", "_file", "_corrupt", "_reason")


def ingest(
    source: str | Sequence[str],
    topic: str,
    *,
    format: str | None = None,
    table: bool = False,
    mapping: Mapping | None = None,
    schema: str | None = None,
    infer_types: bool = False,
    read_options: MappingOf[str, str] | None = None,
    rejects: str | Path | None = None,
    files_per_batch: int = 200,
    bytes_per_batch: int = 256 * 1024 * 1024,
    max_failures: int = 100,
    **run: Unpack[RunOptions],
) -> Summary:
    """Publish the rows of files (JSON lines, CSV, Parquet) or of a table that Spark knows.

    A file that was ingested once is not looked at again; the ledger in the state tells which.
    Rows that can't be published go to the rejects folder, each with its reason.
    """
    sources = [source] if isinstance(source, str) else list(source)
    if format is not None and format not in ingest_files.FORMATS:
        raise InvalidSetting(
            f"format must be one of {', '.join(ingest_files.FORMATS)}, not {format}"
        )
    if not table:
        ingest_files.check(sources)
    marks = (topic, *sorted(each if table else str(Path(each).absolute()) for each in sources))
    with started("ingest", run, *marks) as going:
        engine_calls.ensure_topic(going.url, topic)
        work = _Ingest(
            going,
            topic,
            mapping or Mapping(),
            Path(rejects) if rejects else going.state.folder / "rejects",
            schema=schema,
            infer_types=infer_types,
            options=dict(read_options or {}),
            max_failures=max_failures,
        )
        plans = (
            work.tables(sources)
            if table
            else work.files(sources, format, files_per_batch, bytes_per_batch)
        )
        work_off(work.ledger, work.do, lambda: next(plans, None))
        return going.summary(
            topic=topic,
            files=work.done_files,
            rejects=str(work.rejects) if going.teller.rejected else None,
        )


class _Ingest:
    """One run: what is to be done, and doing it."""

    def __init__(
        self,
        run: Run,
        topic: str,
        mapping: Mapping,
        rejects: Path,
        *,
        schema: str | None,
        infer_types: bool,
        options: dict[str, str],
        max_failures: int,
    ) -> None:
        self._max_failures = max_failures
        self._run, self._topic, self._mapping, self.rejects = run, topic, mapping, rejects
        self._schema, self._infer_types, self._options = schema, infer_types, options
        self.ledger = Ledger(run.state)
        self.done_files = 0
        self._waiting = 0

    def tables(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """A table is one chunk, done once."""
        known = {chunk.work.get("table") for chunk, _result in self.ledger.finished()}
        yield from ({"table": name} for name in names if name not in known)

    def files(
        self,
        sources: Sequence[str],
        format: str | None,
        most: int,
        most_bytes: int,
    ) -> Iterator[dict[str, Any]]:
        """Chunks of files that were not ingested yet; without `once` this goes on and on."""
        while True:
            settled = timedelta(0) if self._run.once else _SETTLED
            new = self._new(ingest_files.find(sources, format, settled=settled))
            self._waiting = len(new)
            self._run.teller.tell(lag=None, phase=f"{len(new)} files to do")
            yield from _grouped(new, most, most_bytes)
            if self._run.once:
                return
            time.sleep(self._run.every.total_seconds())

    def _new(self, found: Sequence[ingest_files.Found]) -> list[ingest_files.Found]:
        known = {
            each["path"]
            for chunk, _result in self.ledger.finished()
            for each in chunk.work.get("files", [])
        }
        return [each for each in found if each.path not in known]

    def do(self, chunk: Chunk) -> dict[str, Any]:
        """Read, map, check, publish; bad rows go to the rejects, over those of an earlier try."""
        damaged = {
            each["path"]: each["damage"]
            for each in chunk.work.get("files", [])
            if each.get("damage")
        }
        frame = self._read(chunk)
        rows = rejected = 0
        if frame is not None:
            checked = self._checked(frame)
            try:
                rows, rejected = _counts(checked.whole)
                self._reject(checked.bad, chunk.number, rejected)
                publication.publish(self._run, checked.good, self.ledger.app, chunk.number)
            finally:
                checked.forget()
        files = len(chunk.work.get("files", []))
        self.done_files += files - len(damaged)
        self._run.teller.add(rows, rejected=rejected + len(damaged))
        self._run.teller.tell(phase="running")
        return {"rows": rows, "rejected": rejected, "damaged": damaged}

    def _checked(self, frame: DataFrame) -> publication.Checked:
        """The rows as messages; one whose expressions can't be computed is bad, alone."""
        checked = publication.check(self._mapping.apply(frame, self._topic))
        try:
            checked.whole.count()
        except Exception as problem:
            checked.forget()
            if not failures.is_about_data(problem):
                raise
            return publication.check(self._without_failing(frame))
        return checked

    def _without_failing(self, frame: DataFrame) -> DataFrame:
        numbered = frame.withColumn("_row", f.monotonically_increasing_id()).persist()
        found = failures.find_failing_rows(
            numbered,
            lambda part: self._mapping.apply(part, self._topic),
            self._max_failures,
            "_row",
        )
        reasons = self._run.spark.createDataFrame(list(found.items()), "_row bigint, _why string")
        told = numbered.join(f.broadcast(reasons), "_row", "left")
        bad = told.where("_why is not null").withColumn("_reason", f.col("_why"))
        good = told.where("_why is null")
        return self._mapping.apply(good.drop("_row", "_why"), self._topic).unionByName(
            Mapping().apply(bad.drop("_row", "_why"), self._topic)
        )

    def _read(self, chunk: Chunk) -> DataFrame | None:
        if "table" in chunk.work:
            return self._run.spark.table(chunk.work["table"]).withColumn(
                "_reason", f.lit(None).cast("string")
            )
        paths = [each["path"] for each in chunk.work["files"] if not each.get("damage")]
        if not paths:
            return None
        shape = chunk.work["shape"]
        kind = shape.partition(":")[0]
        return ingest_files.read(
            self._run.spark, kind, paths, self._columns(shape, paths), self._options
        )

    def _columns(self, shape: str, paths: Sequence[str]) -> str | None:
        """The columns of a shape are settled once, so that a restart reads the same rows."""
        kind = shape.partition(":")[0]
        if self._schema is not None or (kind == "json" and not self._mapping.needs_columns):
            return self._schema
        known: dict[str, str | None] = self._run.state.read("columns.json") or {}
        if shape not in known:
            known[shape] = ingest_files.infer(
                self._run.spark, kind, paths, self._options, types=self._infer_types
            )
            self._run.state.write("columns.json", known)
        return known[shape]

    def _reject(self, bad: DataFrame, number: int, count: int) -> None:
        if not count:
            return
        about = [f.col("_reason").alias("reason")]
        if "_file" in bad.columns:
            about.append(f.col("_file").alias("file"))
        about.append(
            f.coalesce("_line", "value").alias("row")
            if "_line" in bad.columns
            else f.col("value").alias("row")
        )
        bad.select(*about).coalesce(1).write.mode("overwrite").json(
            str(self.rejects / f"chunk={number}")
        )


def _grouped(
    found: Sequence[ingest_files.Found], most: int, most_bytes: int
) -> Iterator[dict[str, Any]]:
    """Files that can be read together, as many as one batch may hold."""
    shapes: dict[str, list[dict[str, Any]]] = {}
    for each in found:
        damage = ingest_files.damage(each)
        shape = "damaged" if damage else ingest_files.shape(each)
        shapes.setdefault(shape, []).append(asdict(each) | ({"damage": damage} if damage else {}))
    for shape, files in shapes.items():
        batch: list[dict[str, Any]] = []
        for file in files:
            size = sum(each["size"] for each in batch) + file["size"]
            if batch and (len(batch) >= most or size > most_bytes):
                yield {"shape": shape, "files": batch}
                batch = []
            batch.append(file)
        yield {"shape": shape, "files": batch}


def _counts(checked: DataFrame) -> tuple[int, int]:
    row = checked.select(
        f.count_if(f.col("_reason").isNull()).alias("good"),
        f.count_if(f.col("_reason").isNotNull()).alias("bad"),
    ).first()
    assert row is not None
    return int(row["good"]), int(row["bad"])


@dataclass(frozen=True, slots=True)
class Mapping:
    """SQL expressions over the row's columns; what is None is not set on the message."""

    key: str | None = None
    headers: MappingOf[str, str] = field(default_factory=dict)
    priority: str | None = None
    deliver_after: str | None = None
    tenant: str | None = None
    payload: Sequence[str] | str | None = None
    """Columns that make up the payload, or an expression for all of it; None: the whole row."""

    @property
    def needs_columns(self) -> bool:
        """Does any expression look into the row?"""
        return bool(
            self.headers
            or self.key
            or self.priority
            or self.deliver_after
            or self.tenant
            or self.payload
        )

    def apply(self, frame: DataFrame, topic: str | None) -> DataFrame:
        """The columns of messages, and those about the row; topic None: the row has it."""
        columns: list[Column] = [
            f.lit(topic).alias("topic") if topic is not None else f.col("topic"),
            self._payload(frame).alias("value"),
            _expression(self.key, "string").alias("key"),
            self._headers().alias("headers"),
            _expression(self.priority, "int").alias("priority"),
            _expression(self.deliver_after, "timestamp").alias("deliver_after"),
            _expression(self.tenant, "string").alias("tenant_id"),
        ]
        kept = [f.col(name) for name in INTERNAL if name in frame.columns]
        try:
            mapped = frame.select(*columns, *kept)
            _ = mapped.schema
        # Connect and classic Spark raise differently.
        except Exception as problem:  # noqa: BLE001
            raise InvalidSetting(_unmappable(problem, frame)) from None
        return mapped

    def _payload(self, frame: DataFrame) -> Column:
        if isinstance(self.payload, str):
            return f.expr(self.payload).cast("string")
        if self.payload is None and "_line" in frame.columns:
            return f.col("_line")
        names = list(self.payload or [name for name in frame.columns if name not in INTERNAL])
        return f.to_json(
            f.struct(*(f.col(f"`{name}`") for name in names)), {"ignoreNullFields": "false"}
        )

    def _headers(self) -> Column:
        if not self.headers:
            return f.lit(None).cast("string")
        named: list[Any] = [
            f.expr(expression).alias(name) for name, expression in self.headers.items()
        ]
        return f.to_json(f.struct(*named))


def _expression(text: str | None, kind: str) -> Column:
    return (f.lit(None) if text is None else f.expr(text)).cast(kind)


def _unmappable(problem: Exception, frame: DataFrame) -> str:
    shown = ", ".join(name for name in frame.columns if name not in INTERNAL)
    reason = str(problem).strip().splitlines()[0]
    return f"the mapping does not fit the data: {reason}\nThe columns are: {shown}"
