"""migrate: what waits in another queue into a topic, once; each message tells its origin."""

from penstock.spark.pipelines.migrate.kafka import migrate_kafka
from penstock.spark.pipelines.migrate.pgmq import migrate_pgmq
from penstock.spark.pipelines.migrate.sqs import migrate_sqs
from penstock.spark.pipelines.migrate.tasks import migrate_tasks

__all__ = ["migrate_kafka", "migrate_pgmq", "migrate_sqs", "migrate_tasks"]
