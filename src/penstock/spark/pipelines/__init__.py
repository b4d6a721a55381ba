"""Ready pipelines on the Spark door, as functions; `penstock pipeline <name>` runs the same.

Each takes its own arguments and, besides, those of `RunOptions`: where the database is, which
Spark runs it, whether it ends or goes on, and where it keeps its state.  Each can be stopped at any
moment and started again with the same state: no row is lost, none is doubled.
"""

from penstock.spark.pipelines.analyse import analyse
from penstock.spark.pipelines.archive import archive
from penstock.spark.pipelines.failures import PipelineFailed
from penstock.spark.pipelines.ingest import Mapping, ingest
from penstock.spark.pipelines.kafka_migration import migrate_kafka
from penstock.spark.pipelines.migration import migrate_pgmq, migrate_tasks
from penstock.spark.pipelines.progress import Progress, Watcher
from penstock.spark.pipelines.replay import replay
from penstock.spark.pipelines.route import Rule, load_rules, route
from penstock.spark.pipelines.run import RunOptions, Summary
from penstock.spark.pipelines.sqs_migration import migrate_sqs
from penstock.spark.pipelines.stateful import aggregate, dedupe

__all__ = [
    "Mapping",
    "PipelineFailed",
    "Progress",
    "Rule",
    "RunOptions",
    "Summary",
    "Watcher",
    "aggregate",
    "analyse",
    "archive",
    "dedupe",
    "ingest",
    "load_rules",
    "migrate_kafka",
    "migrate_pgmq",
    "migrate_sqs",
    "migrate_tasks",
    "replay",
    "route",
]
