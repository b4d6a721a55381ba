"""Facts: one row per message and attempt, with the times that the figures are made of.

When a message was published, and for whom, the source joins to its receipts as long as the log has
the message; afterwards those columns are null, and the times that need them are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# What is asked of the source.
COLUMNS = (
    *("queue", "topic", "message_id", "attempt", "outcome", "claimed_at", "ended_at", "error"),
    *("published_at", "deliver_after", "key", "tenant_id"),
)
_FINAL = ("acked", "dead")


def of(receipts: DataFrame) -> DataFrame:
    """Receipts as facts."""
    # A message with a delay is due later than it was published.
    due = f.greatest(f.col("published_at"), f.col("deliver_after"))
    final = f.col("outcome").isin(*_FINAL)
    first = f.col("attempt") == 1
    return receipts.select(
        *(name for name in COLUMNS if name != "deliver_after"),
        due.alias("due_at"),
        f.when(first, _between(due, f.col("claimed_at"))).alias("wait"),
        _between(f.col("claimed_at"), f.col("ended_at")).alias("work"),
        f.when(final, _between(due, f.col("ended_at"))).alias("end_to_end"),
        f.to_date("ended_at").alias("day"),
    )


def _between(start: Column, end: Column) -> Column:
    """Seconds; two moments of one clock may be a hair out of order, which counts as none."""
    seconds = (f.unix_micros(end) - f.unix_micros(start)) / f.lit(1e6)
    # greatest() passes nulls over: a time that is not known must stay unknown.
    return f.when(seconds.isNotNull(), f.greatest(seconds, f.lit(0.0)))
