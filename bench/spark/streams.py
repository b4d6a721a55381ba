"""A topic into Parquet as a stream, beside a loop that asks for what lies above the highest id."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from bench.spark.measure import JDBC, OURS, Contest, play
from bench.spark.place import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

    from bench.spark.place import Place


def stream_to_parquet(place: Place, messages: int, rounds: int) -> Contest:
    """A backlog into Parquet: our stream, against rate + foreachBatch + a JDBC query."""
    place.fresh()
    place.fill(messages)
    chunk = max(messages // 10, 10_000)
    contest = Contest("stream backlog to Parquet", messages)
    ways = {
        OURS: lambda: our_stream(place, limit=chunk).awaitTermination(),
        JDBC: lambda: _hand_made(place, chunk).drain(messages),
    }
    return play(place, contest, ways, rounds, lambda: clear(place))


def stream_latency(place: Place, seconds: float, per_second: int) -> Contest:
    """From publishing to a finished file, while messages trickle in: p50 and p99 of each way."""
    contest = Contest("stream latency", int(seconds * per_second))
    for name in (OURS, JDBC, OURS, JDBC):
        place.fresh()
        clear(place)
        query = (
            our_stream(place, limit=100_000, every="0 seconds")
            if name == OURS
            else _hand_made(place, 100_000).start()
        )
        # What it takes to begin is no latency: the first message is not counted.
        place.fill(1)
        _wait_for(lambda: _written(place) >= 1)
        began = time.time()
        sent = _trickle(place, seconds, per_second)
        _wait_for(lambda sent=sent: _written(place) > sent)
        query.stop()
        delays = sorted(_delays(place, began))
        contest.seconds.setdefault(name, []).append(delays[len(delays) // 2])
        contest.notes[f"{name} p99"] = delays[int(len(delays) * 0.99)]
        contest.notes[f"{name} messages"] = len(delays)
    return contest


def our_stream(place: Place, *, limit: int, every: str | None = None) -> Any:
    """The topic into Parquet: up to its present end, or on and on with a batch every so often."""
    frame = (
        place.spark.readStream.format("penstock")
        .options(url=place.url, subscribe=TOPIC, startingOffsets="earliest", group="bench")
        .options(maxOffsetsPerTrigger=limit, columns="key,value,offset,timestamp")
        .load()
    )
    folder = place.scratch / "out"

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / f"batch={number}"))

    writer = frame.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(place.scratch / "checkpoint"))
    if every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=every).start()


@dataclass(slots=True)
class _hand_made:  # noqa: N801 - reads as a verb where it is used
    """What one writes without a source: a clock, and a query above the highest id so far."""

    place: Place
    chunk: int
    last: int = 0
    batches: int = 0

    def step(self, _batch: Any = None, _number: int = 0) -> int:
        query = (
            f"(select key, payload::text as value, id as offset, published_at as timestamp "
            f"from penstock_data.messages where id > {self.last} "
            f"order by id limit {self.chunk}) log"
        )
        options = self.place.jdbc(dbtable=query, fetchsize="10000")
        frame = self.place.spark.read.format("jdbc").options(**options).load().cache()
        highest = frame.agg({"offset": "max"}).collect()[0][0]
        if highest is not None:
            out = self.place.scratch / "out" / f"batch={self.batches}"
            frame.write.mode("overwrite").parquet(str(out))
            self.last, self.batches = highest, self.batches + 1
        frame.unpersist()
        return int(highest or 0)

    def drain(self, until: int) -> None:
        while self.last < until:
            self.step()

    def start(self) -> Any:
        clock = self.place.spark.readStream.format("rate").option("rowsPerSecond", 1).load()
        writer = clock.writeStream.foreachBatch(self.step).trigger(processingTime="0 seconds")
        return writer.option("checkpointLocation", str(self.place.scratch / "checkpoint")).start()


def _trickle(place: Place, seconds: float, per_second: int) -> int:
    stop = time.monotonic() + seconds
    number = 0
    with place.connect() as conn:
        while time.monotonic() < stop:
            number += 1
            body = json.dumps({"order": number, "note": "x" * 140})
            conn.execute("select penstock.publish_message(%s, %s::jsonb)", (TOPIC, body))
            time.sleep(1 / per_second)
    return number


def _finished(place: Place) -> list[Path]:
    return [file.parent for file in (place.scratch / "out").glob("batch=*/_SUCCESS")]


def _written(place: Place) -> int:
    """Messages in finished files, counted by their footers."""
    files = (file for folder in _finished(place) for file in folder.glob("*.parquet"))
    return sum(pq.read_metadata(file).num_rows for file in files)


def _delays(place: Place, began: float) -> Iterator[float]:
    """Of the messages published since then, how long each took to be in a finished file."""
    for folder in _finished(place):
        written = (folder / "_SUCCESS").stat().st_mtime
        rows = place.spark.read.parquet(str(folder)).selectExpr("double(timestamp) at").collect()
        yield from (written - row.at for row in rows if row.at >= began)


def clear(place: Place) -> None:
    for name in ("out", "checkpoint"):
        shutil.rmtree(place.scratch / name, ignore_errors=True)
    (place.scratch / "out").mkdir(parents=True)
    with place.connect() as conn:
        conn.execute("select penstock.delete_stream(name) from penstock.list_streams()")


def _wait_for(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.1)
