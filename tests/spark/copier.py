"""A program to be killed: a stream from topic `orders` to topic `copies`, until there is no more.

    python -m tests.spark.copier URL FOLDER [MASTER]

It ends by itself when the file `FOLDER/enough` is there and everything was copied.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psycopg

from penstock.spark import session

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "FATAL",
    # Killed executors are the point, not a reason to give up.
    "spark.task.maxFailures": "50",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.executor.memory": "512m",
}


def main(url: str, folder: Path, master: str) -> None:
    spark = session(master, name="copier", settings=SETTINGS)
    frame = (
        spark.readStream.format("penstock")
        .options(url=url, subscribe="orders", group="copier", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=3000, maxRecordsPerPartition=1000)
        .load()
        .select("key", "value")
    )
    query = (
        frame.writeStream.format("penstock")
        .options(url=url, topic="copies", checkpointLocation=str(folder / "checkpoint"))
        .start()
    )
    while query.isActive:
        if (folder / "enough").exists() and _is_done(url):
            query.stop()
            return
        time.sleep(0.1)
    sys.exit(f"the query ended: {query.exception()}")


def _is_done(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as conn:
        counts = conn.execute("select count(*) from penstock.log group by topic").fetchall()
    return len(counts) == 2 and counts[0] >= counts[1] and counts[0] <= counts[1]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "local[2]")
