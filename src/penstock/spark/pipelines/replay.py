"""replay: messages of an archive or of the log again, to a topic or to one queue."""

# ruff: noqa: A002 - format is Spark's word

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow.parquet as pq
from pyspark.sql import functions as f

from penstock.client.calls import Call
from penstock.client.values import one
from penstock.errors import InvalidSetting
from penstock.spark.lake import Format, Lake, Wanted, open_lake
from penstock.spark.pipelines import engine_calls, message_origin, publication, stream_options
from penstock.spark.pipelines.run import Run, RunOptions, started, utc
from penstock.spark.pipelines.selection import Selection, chunk_rows, frame_of, header_condition
from penstock.spark.pipelines.state import Chunk, Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping as MappingOf
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Summary

# What a message keeps; when it was due and when it expired is over.
_KEPT = ("value", "key", "headers", "priority", "tenant_id", "correlation_id")
_DELIVER = """
    select penstock.deliver_messages(
        %s, %s::jsonb[], %s::jsonb[], %s::text[], null, %s, %s::bigint)"""


def replay(
    *,
    archive: str | Path | None = None,
    log: str | Sequence[str] | None = None,
    to_topic: str | None = None,
    to_queue: str | None = None,
    topics: str | Sequence[str] | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    key: str | None = None,
    headers: MappingOf[str, str] | None = None,
    where: str | None = None,
    rate: float | None = None,
    dry_run: bool = False,
    again: bool = False,
    format: Format | str = Format.DELTA,
    catalog: str | None = None,
    table: str | None = None,
    **run: Unpack[RunOptions],
) -> Summary:
    """Send chosen messages again; each tells in its headers which one it was.

    The choice is made once, at the beginning: a run that is stopped goes on with the same messages.
    """
    if (archive is None) == (log is None):
        raise InvalidSetting("say where the messages are: in an archive or in the log, not both")
    if (to_topic is None) == (to_queue is None) and not dry_run:
        raise InvalidSetting("say where the messages go: to a topic or to a queue, not both")
    marks = (archive, log, to_topic, to_queue, topics, since, until, key, headers, where)
    with started("replay", run, *marks) as going:
        chosen = Selection(going, chunk_rows(rate))
        if again:
            _forget(going)
        # What was chosen is in the state: it is sent even if its topic or archive is gone by now.
        if dry_run or chosen.rows is None:
            if archive is None:
                found = _from_log(going, stream_options.names(log or ()))
            else:
                lake = open_lake(str(archive), format, catalog=catalog, table=table)
                found = _from_lake(going, lake, topics, since, until)
            frame = _chosen(
                found, since=since, until=until, key=key, headers=headers or {}, where=where
            )
            if dry_run:
                return going.summary(**_shown(frame))
            going.teller.tell(phase="choosing")
            marked = frame.mapInArrow(message_origin.marker(), frame.schema)
            chosen.fill_from_frame(marked.select("offset", *_KEPT), "offset")
        _send(going, chosen, to_topic, to_queue, rate)
        return going.summary(chosen=chosen.rows, to=to_topic or to_queue)


def _from_lake(
    run: Run,
    lake: Lake,
    topics: str | Sequence[str] | None,
    since: datetime | None,
    until: datetime | None,
) -> DataFrame:
    if not lake.exists():
        raise InvalidSetting(f"there is no archive of this format in {lake.root}")
    names = tuple(stream_options.names(topics)) if topics is not None else ()
    frame = lake.read(run.spark, Wanted(names, since, until))
    return frame.where(frame["topic"].isin(*names)) if names else frame


def _from_log(run: Run, topics: Sequence[str]) -> DataFrame:
    stream_options.check_topics(run, topics)
    reader = run.spark.read.format("penstock").option("url", run.url)
    return reader.options(**stream_options.subscription(topics)).load()


def _chosen(
    frame: DataFrame,
    *,
    since: datetime | None,
    until: datetime | None,
    key: str | None,
    headers: MappingOf[str, str],
    where: str | None,
) -> DataFrame:
    if since is not None:
        frame = frame.where(f.col("timestamp") >= f.lit(since))
    if until is not None:
        frame = frame.where(f.col("timestamp") < f.lit(until))
    if key is not None:
        frame = frame.where(f.col("key") == key)
    for name, value in headers.items():
        frame = frame.where(header_condition(name, value))
    if where is not None:
        frame = frame.where(where)
    return frame.select("offset", "topic", "timestamp", *_KEPT)


def _shown(frame: DataFrame) -> dict[str, Any]:
    """What a run would send: counts and bounds, never a payload."""
    row = frame.agg(
        f.count("*").alias("rows"),
        f.min("timestamp").alias("first"),
        f.max("timestamp").alias("last"),
        f.min("offset").alias("first_id"),
        f.max("offset").alias("last_id"),
        f.sort_array(f.collect_set("topic")).alias("topics"),
        f.approx_count_distinct("key").alias("keys"),
    ).first()
    assert row is not None
    found = row.asDict()
    for name in ("first", "last"):
        found[name] = None if found[name] is None else utc(found[name])
    return {
        "dry_run": True,
        "would_send": row["rows"],
        **{k: v for k, v in found.items() if k != "rows"},
    }


def _forget(run: Run) -> None:
    """A new replay of the same choice: numbered anew, under a new name."""
    for name in ("selection", "chunks"):
        shutil.rmtree(run.state.folder / name, ignore_errors=True)
    for name in ("selection.json", "identity.json"):
        (run.state.folder / name).unlink(missing_ok=True)


def _send(
    run: Run, chosen: Selection, to_topic: str | None, to_queue: str | None, rate: float | None
) -> None:
    app = Ledger(run.state).app
    if to_topic is not None:
        engine_calls.ensure_topic(run.url, to_topic)

    def publish(chunk: Chunk, path: Path) -> int:
        if to_queue is not None:
            return _deliver(run, to_queue, path, app, chunk.number)
        return _publish(run, str(to_topic), path, app, chunk.number)

    chosen.send(publish, rate=rate)


def _publish(run: Run, topic: str, path: Path, app: str, number: int) -> int:
    frame = frame_of(run, path).withColumn("topic", f.lit(topic))
    publication.publish(run, frame, app, number)
    return int(pq.read_metadata(path).num_rows)


def _deliver(run: Run, queue: str, path: Path, app: str, number: int) -> int:
    """A chunk is small: it goes to the one queue in a single call."""
    rows = pq.read_table(path, columns=["value", "headers", "key"]).to_pydict()
    arguments = (queue, rows["value"], rows["headers"], rows["key"], app, number)
    engine_calls.ask(run.url, Call(_DELIVER, arguments, one(int)))
    return len(rows["value"])
