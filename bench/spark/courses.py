"""What is measured: each contest runs both ways in turn, several times, in one session."""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Self

import psutil

from bench.spark.place import ROWS, TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from bench.spark.place import Place

READ = """(select key, payload::text as value, id, published_at, headers::text as headers, priority,
    deliver_after, expires_at, correlation_id, tenant_id from penstock_data.messages) log"""
OURS = "ours"
JDBC = "jdbc"


@dataclass(slots=True)
class Contest:
    """Seconds of each way, round by round."""

    name: str
    messages: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of processor time, of Spark and the server together: what a busy machine shows."""
    notes: dict[str, float] = field(default_factory=dict)

    def ratio(self, way: str) -> float:
        """How many times as fast as the JDBC way, by the medians."""
        return median(self.seconds[JDBC]) / median(self.seconds[way])


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _cpu(place: Place) -> float:
    """Processor time so far of this process, Java, the Python workers and the server."""
    total = 0.0
    for root in (psutil.Process(), place.server.process):
        for each in (root, *root.children(recursive=True)):
            with suppress(psutil.Error):
                # Of processes that have ended, their parents know.
                total += sum(each.cpu_times()[:4])
    return total


def _play(
    place: Place,
    contest: Contest,
    ways: dict[str, Callable[[], object]],
    rounds: int,
    before: Callable[[], None],
) -> Contest:
    """Each way in turn, so that a disturbance meets all of them; the first round only warms up."""
    for number in range(rounds + 1):
        for name, work in ways.items():
            before()
            used = _cpu(place)
            taken = _timed(work)
            if number:
                contest.seconds.setdefault(name, []).append(taken)
                contest.cpu.setdefault(name, []).append(_cpu(place) - used)
    return contest


def _consume(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def batch_read(place: Place, messages: int, rounds: int) -> Contest:
    """All messages of a topic, against spark.read.jdbc with four partitions."""
    place.fresh()
    place.fill(messages)

    def ours() -> None:
        _consume(place.spark.read.format("penstock").options(url=place.url).load(TOPIC))

    def jdbc() -> None:
        bounds = {"partitionColumn": "id", "lowerBound": "1", "upperBound": str(messages)}
        options = place.jdbc(dbtable=READ, numPartitions="4", fetchsize="10000", **bounds)
        _consume(place.spark.read.format("jdbc").options(**options).load())

    contest = Contest("batch read", messages)
    return _play(place, contest, {OURS: ours, JDBC: jdbc}, rounds, lambda: None)


def batch_write(place: Place, messages: int, rounds: int) -> Contest:
    """The same rows into the log and into a table like it, with rewritten batches."""
    place.numbers(messages)
    rows = place.spark.sql(ROWS)

    def penstock(delivery: str) -> Callable[[], None]:
        writer = rows.write.format("penstock").options(
            url=place.url, topic=TOPIC, delivery=delivery
        )
        return lambda: writer.mode("append").save()

    def jdbc() -> None:
        options = place.jdbc(dbtable="jdbc_log", batchsize="10000")
        rows.write.format("jdbc").options(**options).mode("append").save()

    ways = {"exactly once": penstock("exactly-once"), "at least once": penstock("at-least-once")}
    contest = Contest("batch write", messages)
    return _play(place, contest, {**ways, JDBC: jdbc}, rounds, place.fresh)


def stream_to_parquet(place: Place, messages: int, rounds: int) -> Contest:
    """A backlog into Parquet: our stream, against rate + foreachBatch + a JDBC query."""
    place.fresh()
    place.fill(messages)
    chunk = max(messages // 10, 10_000)
    contest = Contest("stream backlog to Parquet", messages)
    ways = {
        OURS: lambda: _our_stream(place, available_now=True, limit=chunk).awaitTermination(),
        JDBC: lambda: _hand_made(place, chunk).drain(messages),
    }
    return _play(place, contest, ways, rounds, lambda: _clear(place))


def stream_latency(place: Place, seconds: float, per_second: int) -> Contest:
    """From publishing to a finished file, while messages trickle in: p50 and p99 of each way."""
    contest = Contest("stream latency", int(seconds * per_second))
    for name in (OURS, JDBC, OURS, JDBC):
        place.fresh()
        _clear(place)
        query = (
            _our_stream(place, available_now=False, limit=100_000)
            if name == OURS
            else _hand_made(place, 100_000).start()
        )
        _wait_for(lambda query=query: query.isActive and query.recentProgress is not None)
        _trickle(place, seconds, per_second)
        time.sleep(3)
        query.stop()
        delays = sorted(_delays(place))
        contest.seconds.setdefault(name, []).append(delays[len(delays) // 2])
        contest.notes[f"{name} p99"] = delays[int(len(delays) * 0.99)]
        contest.notes[f"{name} messages"] = len(delays)
    return contest


def _our_stream(place: Place, *, available_now: bool, limit: int) -> Any:
    frame = (
        place.spark.readStream.format("penstock")
        .options(url=place.url, subscribe=TOPIC, startingOffsets="earliest", group="bench")
        .options(maxOffsetsPerTrigger=limit)
        .load()
        .select("key", "value", "offset", "timestamp")
    )
    folder = place.scratch / "out"

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(folder / f"batch={number}"))

    writer = frame.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(place.scratch / "checkpoint"))
    return (writer.trigger(availableNow=True) if available_now else writer).start()


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


def _trickle(place: Place, seconds: float, per_second: int) -> None:
    stop = time.monotonic() + seconds
    number = 0
    with place.connect() as conn:
        while time.monotonic() < stop:
            number += 1
            body = json.dumps({"order": number, "note": "x" * 140})
            conn.execute("select penstock.publish_message(%s, %s::jsonb)", (TOPIC, body))
            time.sleep(1 / per_second)


def _delays(place: Place) -> Iterator[float]:
    for folder in (place.scratch / "out").glob("batch=*"):
        written = (folder / "_SUCCESS").stat().st_mtime
        rows = place.spark.read.parquet(str(folder)).selectExpr("double(timestamp) at").collect()
        for row in rows:
            yield written - row.at


def queue_beside_a_stream(place: Place, seconds: float) -> Contest:
    """Publish + claim + ack with and without a stream on the same topic."""
    contest = Contest("publish + claim + ack, per second", 0)
    for _ in range(2):
        for name in ("alone", "beside a stream"):
            place.fresh()
            _clear(place)
            with place.connect() as conn:
                conn.execute("select penstock.create_queue('work', %s)", (TOPIC,))
            query = None
            if name != "alone":
                query = _our_stream(place, available_now=False, limit=100_000)
                time.sleep(5)
            contest.seconds.setdefault(name, []).append(_turns(place, seconds))
            if query is not None:
                query.stop()
    return contest


def _turns(place: Place, seconds: float, batch: int = 10) -> float:
    """Messages that went the whole way, per second."""
    body = [json.dumps({"note": "x" * 140})] * batch
    done = 0
    began = time.monotonic()
    with place.connect() as conn:
        while time.monotonic() < began + seconds:
            conn.execute(
                "select count(*) from penstock.publish_messages(%s, %s::jsonb[])", (TOPIC, body)
            )
            ids = [
                row[0]
                for row in conn.execute(
                    "select message_id from penstock.consume_messages_batch('work', 'me', 30, %s)",
                    (batch,),
                )
            ]
            conn.execute("select count(*) from penstock.ack_messages('work', %s, 'me')", (ids,))
            done += len(ids)
    return done / (time.monotonic() - began)


def _clear(place: Place) -> None:
    for name in ("out", "checkpoint"):
        shutil.rmtree(place.scratch / name, ignore_errors=True)
    (place.scratch / "out").mkdir(parents=True)
    with place.connect() as conn:
        conn.execute("select penstock.delete_stream(name) from penstock.list_streams()")


def _wait_for(condition: Callable[[], object]) -> None:
    while not condition():
        time.sleep(0.1)


class Memory:
    """The largest memory that this process and its children had, by kind."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_problem: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            for each in psutil.Process().children(recursive=True):
                try:
                    kind = "java" if "java" in each.name() else each.name()
                    size = each.memory_info().rss
                except psutil.Error:
                    continue
                self.peaks[kind] = max(self.peaks.get(kind, 0), size)
