"""What every migration does with the rows it was given: keep them in the state, publish, tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.pipelines import database, sink
from penstock.spark.pipelines.chunks import Chunk, Ledger
from penstock.spark.pipelines.errors import PipelineFailed
from penstock.spark.pipelines.selection import Selection, frame_of

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.spark.pipelines.run import Run

SCHEMA = pa.schema(
    [
        ("source_id", pa.string()),
        ("topic", pa.string()),
        ("value", pa.string()),
        ("key", pa.string()),
        ("headers", pa.string()),
        ("priority", pa.int32()),
        ("deliver_after", pa.timestamp("us", tz="UTC")),
        ("tenant_id", pa.string()),
    ]
)
CHUNK = 20_000

Done = Callable[[list[str]], None]


def move(
    run: Run,
    rows: Callable[[], Iterable[dict[str, Any]]],
    *,
    after: Done | None = None,
) -> int:
    """Choose the rows if that was not done, publish them by chunks, and then see to the source.

    `after` gets the ids of a chunk that is published; it may be called again after a crash.
    """
    chosen = Selection(run, CHUNK)
    if chosen.rows is None:
        run.teller.tell(phase="reading")
        chosen.fill(rows(), SCHEMA)
    app = Ledger(run.state).app

    def publish(chunk: Chunk, path: Path) -> int:
        publish_file(run, path, app, chunk.number)
        if after is not None:
            after(pq.read_table(path, columns=["source_id"])["source_id"].to_pylist())
        return int(pq.read_metadata(path).num_rows)

    chosen.send(publish)
    return chosen.rows or 0


def publish_file(run: Run, path: Path, app: str, number: int) -> None:
    """Publish a file of rows; what the database would refuse stops it with the reason."""
    frame = frame_of(run, path)
    topics = pq.read_table(path, columns=["topic"])["topic"].unique().to_pylist()
    database.ensure_topics(run.url, topics)
    checked = sink.check(frame)
    try:
        _refuse(checked)
        sink.publish(run, checked.good, app, number)
    finally:
        checked.forget()


def _refuse(checked: sink.Checked) -> None:
    bad = checked.bad.select("source_id", "_reason").first()
    if bad is not None:
        raise PipelineFailed(f"message {bad['source_id']} can't be published: {bad['_reason']}")
