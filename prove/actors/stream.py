"""A Spark stream from the topic into Parquet files, which goes back when its offset was lost.

    python -m prove.actors.stream DSN FOLDER [--once]

With --once it takes what is there, and then lists the numbers in the files in `FOLDER/numbers`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.spark import session
from prove.actors.names import TOPIC

# A server that is away fails tasks; the query is started again when it gives up.
MASTER = "local[2,20]"
SETTINGS = {"spark.sql.shuffle.partitions": "2", "spark.log.level": "FATAL"}


def main(dsn: str, folder: Path, *, once: bool) -> None:
    spark = session(MASTER, name="proof", settings=SETTINGS)
    frame = (
        spark.readStream.format("penstock")
        .options(url=dsn, subscribe=TOPIC, group="proof", startingOffsets="earliest")
        .options(onLostOffset="rewind", maxOffsetsPerTrigger=5000)
        .load()
        .select("value")
    )
    files = str(folder / "files")
    writer = frame.writeStream.format("parquet").option("path", files)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = (writer.trigger(availableNow=True) if once else writer).start()
    query.awaitTermination()
    rows = spark.read.parquet(files).collect()
    (folder / "numbers").write_text("\n".join(row["value"] for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), once="--once" in sys.argv)
