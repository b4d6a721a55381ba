"""A log worked on batch by batch, by this process, wherever Spark runs.

Spark's own way, `foreachBatch`, calls back into the process that started the stream, which Spark
Connect can't do.  So what Spark asks a stream's reader is asked here: where does the next batch
end?  Before a batch is begun, its bounds are written down.  After a crash it is done again with the
same messages and the same number, and a target that remembers the number does nothing twice.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol

from penstock.spark.pipelines import stream_options
from penstock.spark.source.data_source import PenstockDataSource
from penstock.spark.source.offsets import Offset, plain, same
from penstock.spark.source.option_names import for_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from penstock.spark.pipelines.run import Run
    from penstock.spark.pipelines.state import State
    from penstock.spark.source.stream_reader import PenstockStreamReader

_DOCUMENT = "batches.json"


@dataclass(frozen=True, slots=True)
class Batch:
    """Where a stream stands: the number of a batch, and where it begins and ends."""

    stream: str
    """Made with the state: batches are numbered from 0 in each."""
    number: int
    start: Offset
    end: Offset | None = None
    """None: it is not begun yet."""

    def begun(self, end: Offset) -> Batch:
        return replace(self, end=end)

    def next(self) -> Batch:
        assert self.end is not None
        return Batch(self.stream, self.number + 1, self.end)


class Work(Protocol):
    """What a pipeline does with a batch; returns the number of rows that it counts as done."""

    def __call__(self, frame: DataFrame, batch: Batch) -> int: ...


def each_batch(
    run: Run,
    options: Mapping[str, str],
    work: Work,
    *,
    lag: Callable[[], int | None] = lambda: None,
) -> None:
    """Run `work` on every batch of the stream that `options` describe, until its end."""
    reader = _reader(options)
    try:
        for batch in _batches(run, reader, lag):
            run.teller.add(work(_frame(run, reader, options, batch), batch))
    finally:
        reader.stop()


def _batches(
    run: Run, reader: PenstockStreamReader, lag: Callable[[], int | None]
) -> Iterator[Batch]:
    """One batch after the other; a batch is done when the next one is asked for."""
    at = _read(run.state) or Batch(uuid.uuid4().hex, 0, reader.initialOffset())
    if run.once:
        reader.prepareForTriggerAvailableNow()
    while True:
        run.teller.tell(lag=lag())
        looked_at = time.monotonic()
        if at.end is None:
            # The question also tells the database that everything before is done.
            end = reader.latestOffset(at.start, reader.getDefaultReadLimit())
            if not same(at.start, end):
                at = _noted(run.state, at.begun(end))
        if at.end is not None:
            yield at
            at = _noted(run.state, at.next())
        elif run.once:
            return
        if not run.once:
            time.sleep(max(0.0, looked_at + run.every.total_seconds() - time.monotonic()))


def _reader(options: Mapping[str, str]) -> PenstockStreamReader:
    found = PenstockDataSource(dict(options))
    return found.streamReader(found.schema())


def _frame(
    run: Run, reader: PenstockStreamReader, options: Mapping[str, str], batch: Batch
) -> DataFrame:
    assert batch.end is not None
    asked, start, end = for_batches(options), batch.start, batch.end
    held = reader.held(end)
    if held is not None and held.queues:
        # The read picks the queues of the batch by their ids; names may hold commas.
        asked = stream_options.without_members(asked)
    elif held is not None and held.topics:
        names = [name for _number, name in held.topics]
        asked = stream_options.without_members(asked) | stream_options.subscription(names)
    elif held is not None:
        # All that the batch held was deleted: nothing lies between an offset and itself.
        start = end = plain(end)
    bounds = {"startingOffsets": json.dumps(start), "endingOffsets": json.dumps(end)}
    return run.spark.read.format("penstock").options(**asked, **bounds).load()


def _read(state: State) -> Batch | None:
    found = state.read(_DOCUMENT)
    return None if found is None else Batch(**found)


def _noted(state: State, batch: Batch) -> Batch:
    state.write(_DOCUMENT, asdict(batch))
    return batch
