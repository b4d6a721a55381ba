"""route: topics into topics, by rules or by a function; what fails becomes a dead letter."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pyspark import cloudpickle
from pyspark.sql import functions as f

from penstock.errors import InvalidSetting
from penstock.spark.pipelines import (
    engine_calls,
    failures,
    message_origin,
    publication,
    route_rules,
    stream_options,
)
from penstock.spark.pipelines.batch_loop import Batch, each_batch
from penstock.spark.pipelines.engine_calls import Lag
from penstock.spark.pipelines.route_rules import Rule, load_rules, topics_of
from penstock.spark.pipelines.run import Run, RunOptions, started

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Mapping as MappingOf

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Summary

__all__ = ["Rule", "load_rules", "route"]

VIEW = "messages"


def route(
    topics: str | Sequence[str],
    rules: Sequence[Rule] | Callable[[dict[str, Any]], Any] | str,
    *,
    tables: MappingOf[str, str | DataFrame] | None = None,
    schema: str | None = None,
    first_match: bool = False,
    dead_letters: str | None = None,
    max_failures: int = 100,
    group: str | None = None,
    start: str = "earliest",
    max_rows: int | None = 50_000,
    **run: Unpack[RunOptions],
) -> Summary:
    """Send messages on: by rules, by a function of one message, or by an SQL query.

    Rules and queries see the columns of a message, `payload` as a variant, with `schema` also
    `data`, and the static tables that are named.  A message whose row fails goes to the topic of
    dead letters with the reason; all others of its batch go their way.
    """
    wanted = stream_options.names(topics)
    if callable(rules):
        _pickle_by_value(rules)
    dead = dead_letters or f"{wanted[0]}.dead"
    if dead in wanted:
        raise InvalidSetting(f"dead letters can't go to {dead}, which is read here")
    with started("route", run, *wanted, _mark(rules), dead) as going:
        named = topics_of(rules) if isinstance(rules, list | tuple) else set()
        if named & set(wanted):
            raise InvalidSetting(
                f"a rule sends to {', '.join(named & set(wanted))}, which is read here"
            )
        engine_calls.ensure_topics(going.url, sorted({dead} | named))
        work = _Route(
            going,
            rules,
            tables=tables or {},
            schema=schema,
            first_match=first_match,
            dead_topic=dead,
            max_failures=max_failures,
        )
        name = group or stream_options.default_group("route", going)
        asked = stream_options.options(going, wanted, group=name, start=start, max_rows=max_rows)
        each_batch(going, asked, work, lag=Lag(going.url, name, wanted))
        return going.summary(
            lag=engine_calls.reader_lag(going.url, name, wanted),
            sent=work.sent,
            dead_letters=dead if work.dead else None,
        )


def _pickle_by_value(function: Callable[..., Any]) -> None:
    """Workers may not find the module of a user's function: its code goes along with the job."""
    module = sys.modules.get(function.__module__)
    if module is not None and function.__module__ != "__main__":
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _mark(rules: Any) -> str:
    return getattr(rules, "__qualname__", None) or str(rules)


class _Route:
    """One run; called with each batch."""

    def __init__(
        self,
        run: Run,
        rules: Any,
        *,
        tables: MappingOf[str, str | DataFrame],
        schema: str | None,
        first_match: bool,
        dead_topic: str,
        max_failures: int,
    ) -> None:
        self._run, self._rules, self._tables, self._schema = run, rules, tables, schema
        self._first_match, self._dead_topic, self._most = first_match, dead_topic, max_failures
        self._known: set[str] = set()
        self.sent = self.dead = 0

    def __call__(self, frame: DataFrame, batch: Batch) -> int:
        frame = frame.persist()
        try:
            failed = self._send(frame, {}, batch)
            if failed:
                self._send(frame, failed, batch)
            return frame.count()
        finally:
            frame.unpersist()

    def _send(self, frame: DataFrame, failed: dict[int, str], batch: Batch) -> dict[int, str]:
        """Send a batch without the rows known to fail; returns those, if some turn up now."""
        good = frame.where(~frame["offset"].isin(list(failed))) if failed else frame
        checked = publication.check(self._apply(good))
        try:
            try:
                faults = _faults(checked.bad)
            except Exception as problem:
                if failed or not failures.is_about_data(problem):
                    raise
                return failures.find_failing_rows(frame, self._apply, self._most)
            reasons = failed | faults
            out = _messages(checked.good)
            if reasons:
                out = out.unionByName(self._dead_letters(frame, reasons), allowMissingColumns=True)
            self._ensure(checked.good)
            publication.publish(self._run, out, batch.stream, batch.number)
            self._count(checked.good, reasons)
        finally:
            checked.forget()
        return {}

    def _apply(self, frame: DataFrame) -> DataFrame:
        if callable(self._rules):
            return frame.mapInArrow(
                route_rules.function_runner(self._rules), route_rules.ROUTED_COLUMNS
            )
        seen = self._seen(frame)
        if isinstance(self._rules, str):
            return self._queried(seen)
        return self._ruled(seen)

    def _seen(self, frame: DataFrame) -> DataFrame:
        """A message as rules see it."""
        frame = frame.withColumn("payload", f.parse_json("value"))
        if self._schema is not None:
            frame = frame.withColumn("data", f.from_json("value", self._schema))
        for name, table in self._tables.items():
            found = _table(frame.sparkSession, table) if isinstance(table, str) else table
            found.createOrReplaceTempView(name)
        return frame

    def _queried(self, frame: DataFrame) -> DataFrame:
        frame.createOrReplaceTempView(VIEW)
        found = frame.sparkSession.sql(str(self._rules))
        if "topic" not in found.columns or "value" not in found.columns:
            raise InvalidSetting(
                "the query must yield topic and value; and offset, key, headers … if you like"
            )
        return found

    def _ruled(self, frame: DataFrame) -> DataFrame:
        frame.createOrReplaceTempView(VIEW)
        parts: list[DataFrame] = []
        left = frame
        for rule in self._rules:
            parts.append(rule.apply(left))
            if self._first_match:
                left = (
                    left.where("false")
                    if rule.where is None
                    else left.where(f"not coalesce({rule.where}, false)")
                )
        return functools.reduce(lambda one, other: one.unionByName(other), parts)

    def _dead_letters(self, frame: DataFrame, reasons: dict[int, str]) -> DataFrame:
        """The messages as they came, with the reason and their origin in the headers."""
        marked = frame.where(frame["offset"].isin(list(reasons))).mapInArrow(
            message_origin.marker(), frame.schema
        )
        told = frame.sparkSession.createDataFrame(
            list(reasons.items()), "offset bigint, error string"
        )
        headers = f.map_concat(
            f.from_json("headers", "map<string,string>"),
            f.create_map(f.lit("error"), f.col("error")),
        )
        return marked.join(told, "offset").select(
            f.lit(self._dead_topic).alias("topic"),
            "value",
            "key",
            f.to_json(headers).alias("headers"),
            "tenant_id",
            "correlation_id",
        )

    def _ensure(self, good: DataFrame) -> None:
        """Topics that an expression names are made when they are met first."""
        if isinstance(self._rules, list | tuple) and all(
            rule.to_sql is None for rule in self._rules
        ):
            return
        new = {
            row[0] for row in good.select("topic").distinct().limit(1000).collect()
        } - self._known
        if new:
            engine_calls.ensure_topics(self._run.url, sorted(new))
            self._known |= new

    def _count(self, good: DataFrame, reasons: dict[int, str]) -> None:
        self.sent += good.count()
        self.dead += len(reasons)
        self._run.teller.add(0, rejected=len(reasons), batches=0)


def _faults(bad: DataFrame) -> dict[int, str]:
    """Rows that can't be published; without offset a query's row does not tell its origin."""
    if "offset" not in bad.columns:
        first = bad.select("_reason").first()
        if first is not None:
            raise InvalidSetting(
                f"a row of the query can't be published: {first[0]}\n"
                "Select offset too, and such rows become dead letters."
            )
        return {}
    return {row["offset"]: row["_reason"] for row in bad.select("offset", "_reason").collect()}


def _messages(frame: DataFrame) -> DataFrame:
    return frame.select(*(name for name in publication.MESSAGE if name in frame.columns))


def _table(spark: Any, location: str) -> DataFrame:
    """A static table: a name that Spark knows, or a file or folder."""
    if not Path(location).exists() and "/" not in location:
        found: DataFrame = spark.table(location)
        return found
    kind = Path(location).suffix.lstrip(".") or "parquet"
    reader = spark.read.format({"jsonl": "json", "ndjson": "json"}.get(kind, kind))
    made: DataFrame = reader.option("header", "true").option("inferSchema", "true").load(location)
    return made
