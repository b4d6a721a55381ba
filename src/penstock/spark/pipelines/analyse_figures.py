"""From receipts to facts, and from facts to figures, by Spark's SQL.

A fact is one row per message and attempt, with the times that the figures are made of.  When a
message was published, and for which tenant, the source joins to its receipts as long as the log has
the message; afterwards those columns are null, and the times that need them are unknown.
"""

# ruff: noqa: S608 - what is put into the statements are words of this file

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from penstock.spark.pipelines.report.report_model import (
    Bar,
    Bucket,
    Group,
    Percentiles,
    QueueFigures,
    Reason,
)
from penstock.spark.pipelines.run import utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

VIEW = "penstock_attempts"
# Four bars of a histogram for every doubling.
_FINE = 4
_REPORTED = 60

_COUNTS = """
    count_if(outcome = 'acked') as done,
    count_if(outcome = 'acked' and attempt = 1) as done_at_once,
    count(distinct case when attempt > 1 then message_id end) as retried,
    count_if(outcome = 'dead') as dead,
    count_if(outcome in ('failed', 'expired', 'dead')) as failures,
    count_if(outcome = 'expired') as expired,
    count_if(outcome = 'released') as released"""
# What is asked of the source.
FACT_COLUMNS = (
    *("queue", "topic", "message_id", "attempt", "outcome", "claimed_at", "ended_at", "error"),
    *("published_at", "deliver_after", "key", "tenant_id"),
)
_FINAL = ("acked", "dead")


def _shares(name: str) -> str:
    array = f"percentile_approx({name}, array(0.5, 0.95, 0.99), 10000)"
    return ", ".join(f"{array}[{place}] as {name}_{share}" for place, share in enumerate(_SHARES))


_SHARES = ("p50", "p95", "p99")
_TIMES = f"{_shares('wait')}, {_shares('work')}, {_shares('end_to_end')}"

# The tables that a run writes, each by one statement over the facts.
TABLES = {
    "queues": f"select queue, {_COUNTS}, {_TIMES} from {VIEW} group by queue",
    "hours": f"""select queue, tenant_id, date_trunc('hour', ended_at) as hour, day,
        {_COUNTS}, {_TIMES} from {VIEW} group by all""",
    "keys": f"""select queue, key, {_COUNTS}, {_shares("end_to_end")} from {VIEW}
        group by queue, key order by dead desc, failures desc, end_to_end_p99 desc limit 100000""",
    "tenants": f"select queue, tenant_id, {_COUNTS}, {_TIMES} from {VIEW} group by 1, 2",
    "reasons": f"""select queue, coalesce(error, outcome) as error, count(*) as attempts,
        count(distinct message_id) as messages, min(ended_at) as first_at, max(ended_at) as last_at,
        max(message_id) as last_message_id
        from {VIEW} where outcome in ('failed', 'expired', 'dead') group by 1, 2""",
}  # fmt: skip


def table(facts: DataFrame, name: str) -> pa.Table:
    """One of the tables, small enough for the driver."""
    return _ask(facts, TABLES[name]).toArrow()


def _ask(facts: DataFrame, statement: str) -> DataFrame:
    facts.createOrReplaceTempView(VIEW)
    return facts.sparkSession.sql(statement)


def period(facts: DataFrame) -> tuple[datetime, datetime] | None:
    """The first and the last moment that the facts tell of."""
    row = _ask(
        facts,
        "select min(coalesce(due_at, claimed_at, ended_at)) as first, max(ended_at) as last "
        f"from {VIEW}",
    ).collect()[0]
    return None if row["last"] is None else (utc(row["first"]), utc(row["last"]))


def queues(rows: pa.Table) -> tuple[QueueFigures, ...]:
    return tuple(
        QueueFigures(
            row["queue"],
            row["done"],
            row["done_at_once"],
            row["retried"],
            row["dead"],
            row["failures"],
            _percentiles(row, "wait"),
            _percentiles(row, "work"),
            _percentiles(row, "end_to_end"),
        )
        for row in sorted(rows.to_pylist(), key=lambda row: str(row["queue"]))
    )


def buckets(facts: DataFrame, size: timedelta) -> tuple[Bucket, ...]:
    """The facts in spans of time, counted from 1970 so that a span is the same in every report."""
    width = round(size / timedelta(milliseconds=1))
    rows = _ask(
        facts,
        f"""select queue,
        timestamp_millis(floor(unix_millis(ended_at) / {width}) * {width}) as at,
        {_COUNTS}, {_shares("end_to_end")} from {VIEW} group by 1, 2""",
    ).collect()
    return tuple(
        Bucket(
            row["queue"],
            utc(row["at"]),
            row["done"],
            row["failures"],
            row["dead"],
            _percentiles(row.asDict(), "end_to_end"),
        )
        for row in sorted(rows, key=lambda row: (row["at"], row["queue"]))
    )


def histogram(facts: DataFrame) -> tuple[Bar, ...]:
    rows = _ask(
        facts,
        f"""select queue, floor(log2(greatest(end_to_end, 0.000001)) * {_FINE}) as step,
        count(*) as many
        from {VIEW} where end_to_end is not null and outcome = 'acked' group by 1, 2""",
    ).collect()
    return tuple(
        Bar(row["queue"], 2 ** (row["step"] / _FINE), 2 ** ((row["step"] + 1) / _FINE), row["many"])
        for row in sorted(rows, key=lambda row: (row["queue"], row["step"]))
    )


def reasons(rows: pa.Table) -> tuple[Reason, ...]:
    found = sorted(rows.to_pylist(), key=lambda row: (-row["attempts"], row["error"]))
    return tuple(
        Reason(row["queue"], row["error"], row["attempts"], row["messages"], utc(row["last_at"]))
        for row in found
    )


def groups(rows: pa.Table, name: str) -> tuple[Group, ...]:
    """Those that need a look first: dead letters, failures, slowness."""

    def need(row: dict[str, Any]) -> tuple[float, float, float]:
        return (-row["dead"], -row["failures"], -(row["end_to_end_p99"] or 0))

    return tuple(
        Group(
            row["queue"],
            row[name],
            row["done"] + row["dead"],
            row["failures"],
            row["dead"],
            _percentiles(row, "end_to_end"),
        )
        for row in sorted(rows.to_pylist(), key=need)[:_REPORTED]
    )


def _percentiles(row: Any, name: str) -> Percentiles:
    return Percentiles(*(row[f"{name}_{share}"] for share in _SHARES))


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names without what they all begin with, up to a separator: plots have little room."""
    if len(set(names)) <= 1:
        return {name: name for name in names}
    shortest = min(names, key=len)
    common = next(
        (n for n in range(len(shortest)) if len({name[n] for name in names}) > 1), len(shortest)
    )
    cut = max((shortest[:common].rfind(mark) + 1 for mark in "-_./:"), default=0)
    return {name: name[cut:] or name for name in names}


def facts_of(receipts: DataFrame) -> DataFrame:
    """Receipts as facts."""
    # A message with a delay is due later than it was published.
    due = f.greatest(f.col("published_at"), f.col("deliver_after"))
    final = f.col("outcome").isin(*_FINAL)
    first = f.col("attempt") == 1
    return receipts.select(
        *(name for name in FACT_COLUMNS if name != "deliver_after"),
        due.alias("due_at"),
        f.when(first, _seconds_between(due, f.col("claimed_at"))).alias("wait"),
        _seconds_between(f.col("claimed_at"), f.col("ended_at")).alias("work"),
        f.when(final, _seconds_between(due, f.col("ended_at"))).alias("end_to_end"),
        f.to_date("ended_at").alias("day"),
    )


def _seconds_between(start: Column, end: Column) -> Column:
    """Seconds; 0 if the end is before the start, by the imprecision of a clock."""
    seconds = (f.unix_micros(end) - f.unix_micros(start)) / f.lit(1e6)
    # greatest() passes nulls over: a time that is not known must stay unknown.
    return f.when(seconds.isNotNull(), f.greatest(seconds, f.lit(0.0)))
