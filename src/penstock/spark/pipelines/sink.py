"""Publishing a batch of rows, once: what was written under (app, version) is not written again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from penstock.spark.pipelines import checking

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Run

# What the sink knows of a message; whatever else a batch has stays behind.
MESSAGE = (
    "topic",
    "value",
    "key",
    "headers",
    "priority",
    "deliver_after",
    "expires_at",
    "tenant_id",
    "correlation_id",
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A batch told apart: rows to publish, and rows with the reason why not."""

    good: DataFrame
    bad: DataFrame
    whole: DataFrame

    def forget(self) -> None:
        self.whole.unpersist()


def check(frame: DataFrame) -> Checked:
    """Tell the rows apart that the database would refuse; computed once, used for both parts."""
    if checking.REASON not in frame.columns:
        frame = frame.withColumn(checking.REASON, f.lit(None).cast("string"))
    whole = frame.mapInArrow(checking.checker(), frame.schema).persist()
    reason = f.col(checking.REASON)
    return Checked(whole.where(reason.isNull()), whole.where(reason.isNotNull()), whole)


def publish(run: Run, frame: DataFrame, app: str, version: int) -> None:
    """Write messages in one transaction, unless this batch is there already."""
    columns = [name for name in MESSAGE if name in frame.columns]
    (
        frame.select(*columns)
        .write.format("penstock")
        .mode("append")
        .option("url", run.url)
        .option("txnAppId", app)
        .option("txnVersion", str(version))
        .save()
    )
