"""Batches of topics and queues that are gone, or that the run does not name.  Without Spark."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo

from penstock.errors import InvalidSetting, PermissionDenied, UnknownTopic
from penstock.spark.pipelines import stateful, stream_options
from penstock.spark.pipelines.batch_loop import Batch, each_batch
from penstock.spark.pipelines.progress import Teller, silence
from penstock.spark.pipelines.run import Run
from penstock.spark.pipelines.state import State
from penstock.spark.source.data_source import PenstockDataSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from tests.fixtures.databases import Database

Rows = list[dict[str, Any]]


class Reads:
    """Stands for Spark: a read is planned and done in this process."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {}

    @property
    def read(self) -> Reads:
        return self

    def format(self, _name: str) -> Reads:
        return self

    def options(self, **options: str) -> Reads:
        self._options = options
        return self

    def load(self) -> Rows:
        found = PenstockDataSource(self._options)
        reader: Any = found.reader(found.schema())
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
        return [row for batch in batches for row in batch.to_pylist()]


@dataclass
class Pipeline:
    """A pipeline that tells what its batches hold, or fails in the first."""

    url: str
    db: psycopg.Connection[Any]
    folder: Path

    def run(self, **options: Any) -> Run:
        spark: Any = Reads()
        return Run(
            "work",
            spark,
            options.get("url", self.url),
            State(str(self.folder)),
            once=True,
            every=timedelta(0),
            teller=Teller("work", silence),
        )

    def messages(self, *topics: str, fails: bool = False, **options: Any) -> list[list[int]]:
        """Work on topics; returns what each batch held."""
        run = self.run(**options)
        found = self._work(run, stream_options.options(run, topics, group="copy"), fails=fails)
        return [[json.loads(row["value"]) for row in rows] for rows in found]

    def receipts(self, *queues: str, fails: bool = False, **options: Any) -> list[list[str]]:
        """Work on the history of queues, or of all; returns the queues of each batch."""
        run = self.run(**options)
        asked = stream_options.reading(run, "history", "earliest", None) | {"entity": "receipts"}
        named = {"queue": ",".join(queues)} if queues else {}
        found = self._work(run, asked | named, fails=fails)
        return [sorted(row["queue"] for row in rows) for rows in found]

    def _work(self, run: Run, asked: dict[str, str], *, fails: bool) -> list[Rows]:
        found: list[Rows] = []

        def work(frame: Any, _batch: Batch) -> int:
            if fails:
                raise RuntimeError("the power went")
            found.append(frame)
            return len(frame)

        if fails:
            with pytest.raises(RuntimeError, match="the power went"):
                each_batch(run, asked, work)
        else:
            each_batch(run, asked, work)
        return found

    def publish(self, topic: str, *numbers: int) -> None:
        self.db.execute("select penstock.create_topic(%s)", (topic,))
        for number in numbers:
            self.db.execute("select penstock.publish_message(%s, %s::jsonb)", (topic, str(number)))

    def consume(self, queue: str) -> None:
        """A queue with the history of one message."""
        self.db.execute("select penstock.create_queue(%s, 'orders')", (queue,))
        self.publish("orders", 1)
        [(number,)] = self.db.execute(
            "select message_id from penstock.consume_message(%s, 'me', 60)", (queue,)
        )
        self.db.execute("select penstock.ack_message(%s, %s, 'me')", (queue, number))

    def forget_lists(self) -> None:
        """Make the state and the stream as the release before wrote them."""
        new = "'{topics,queues,lsn,timeline}'::text[]"
        self.db.execute(f"update penstock_data.streams set start_offset = start_offset - {new}")
        self.db.execute(
            f"update penstock_data.stream_positions set current_offset = current_offset - {new}"
        )
        state = self.run().state
        noted = state.read("batches.json")
        for offset in (noted["start"], noted["end"]):
            for name in ("topics", "queues", "lsn", "timeline"):
                offset.pop(name, None)
        state.write("batches.json", noted)


@pytest.fixture
def pipeline(database: Database, db: psycopg.Connection[Any], tmp_path: Path) -> Pipeline:
    return Pipeline(database.dsn, db, tmp_path)


@pytest.fixture
def analyst(db: psycopg.Connection[Any]) -> Iterator[str]:
    """A role that reads the topics which have a reader for it."""
    db.execute("create role analyst login")
    db.execute("grant penstock_consumer, penstock_monitor to analyst")
    yield "analyst"
    db.execute("drop role analyst")


@pytest.mark.parametrize("gone", ["returns", "returns, old"])
def test_a_batch_is_ended_without_a_topic_that_was_deleted(pipeline: Pipeline, gone: str):
    pipeline.publish("orders", 1)
    pipeline.publish(gone, 10)
    pipeline.messages("orders", gone, fails=True)
    pipeline.db.execute("select penstock.delete_topic(%s)", (gone,))
    with pytest.raises(UnknownTopic):
        pipeline.messages("orders", gone)
    pipeline.publish("orders", 2)
    assert pipeline.messages("orders") == [[1], [2]]
    # Of the same name, and another one.
    pipeline.publish(gone, 11)
    assert pipeline.messages("orders", gone) == [[11]]


def test_a_batch_of_deleted_topics_alone_is_ended_too(pipeline: Pipeline):
    pipeline.publish("returns", 10)
    pipeline.messages("returns", fails=True)
    pipeline.db.execute("select penstock.delete_topic('returns')")
    pipeline.publish("orders", 1)
    assert pipeline.messages("orders") == [[], [1]]


def test_a_topic_that_catches_up_may_be_deleted(pipeline: Pipeline):
    pipeline.publish("orders", 1)
    pipeline.publish("returns", 10)
    assert pipeline.messages("orders") == [[1]]
    pipeline.messages("orders", "returns", fails=True)
    pipeline.db.execute("select penstock.delete_topic('returns')")
    pipeline.publish("orders", 2)
    assert pipeline.messages("orders") == [[], [2]]


def test_a_topic_that_may_not_be_read_any_more_is_not_passed_over(pipeline: Pipeline, analyst: str):
    url = make_conninfo(pipeline.url, user=analyst)
    pipeline.publish("orders", 1)
    pipeline.publish("returns, old", 10)
    pipeline.messages("orders", "returns, old", fails=True)
    pipeline.db.execute("select penstock.delete_reader('copy:returns, old')")
    with pytest.raises(PermissionDenied, match="may not read the log of topic 'returns, old'"):
        pipeline.messages("orders", url=url)
    assert pipeline.messages("orders") == [[1, 10]]


def test_history_that_may_not_be_read_any_more_is_not_passed_over(pipeline: Pipeline, analyst: str):
    pipeline.publish("orders")
    pipeline.consume("billing")
    pipeline.receipts(fails=True)
    with pytest.raises(PermissionDenied, match="may not read the log of topic 'orders'"):
        pipeline.receipts(url=make_conninfo(pipeline.url, user=analyst))
    assert pipeline.receipts() == [["billing"]]


def test_history_is_read_without_queues_that_were_deleted(pipeline: Pipeline):
    pipeline.publish("orders")
    for queue in ("billing", "mail", "a,b"):
        pipeline.consume(queue)
    pipeline.receipts(fails=True)
    pipeline.db.execute("select penstock.delete_queue('mail')")
    pipeline.consume("late")
    assert pipeline.receipts() == [["a,b", "billing"], ["late"]]
    # The batch is ended with its queues, whichever are named by then.
    pipeline.consume("other")
    pipeline.receipts("other", fails=True)
    assert pipeline.receipts("billing") == [["other"]]


def test_a_batch_of_the_release_before_holds_the_topics_of_its_group(pipeline: Pipeline):
    pipeline.publish("orders", 1, 2)
    pipeline.publish("returns", 10, 11)
    pipeline.messages("orders", fails=True)
    pipeline.forget_lists()
    pipeline.publish("orders", 3)
    # A stream whose name begins alike is another one.
    pipeline.db.execute("select penstock.create_reader('copy:returns', 'returns')")
    pipeline.messages("returns", fails=True)
    assert pipeline.messages("returns") == [[1, 2], [10, 11]]
    assert pipeline.messages("orders", "returns") == [[3]]


def test_a_state_is_not_held_by_a_run_that_read_nothing(pipeline: Pipeline, tmp_path: Path):
    run = pipeline.run()
    pipeline.publish("orders")
    pipeline.publish("returns")
    with pytest.raises(UnknownTopic, match="there is no topic ordrs"):
        stateful._check_topics(run, ["ordrs"], "copy")
    stateful._check_topics(run, ["returns"], "copy")
    # Spark makes the folders before it plans the first batch.
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    stateful._check_topics(run, ["orders", "returns"], "copy")
    (offsets / "0").touch()
    with pytest.raises(InvalidSetting, match="is of orders, returns, not of orders:"):
        stateful._check_topics(run, ["orders"], "copy")
    # What was deleted can't be named any more.
    pipeline.db.execute("select penstock.delete_topic('returns')")
    stateful._check_topics(run, ["orders"], "copy")
    pipeline.publish("other")
    with pytest.raises(InvalidSetting, match="is of orders, not of other:"):
        stateful._check_topics(run, ["other"], "copy")
