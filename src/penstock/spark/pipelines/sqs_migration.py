"""From an SQS queue, through boto3: received, kept in the state, published, and then deleted there.

SQS delivers at least once, and a message received may come again before it is deleted.  The state
remembers the ids it has kept, so that one that comes again is deleted and not published again.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import InvalidSetting
from penstock.spark.pipelines.message_origin import as_json, marked
from penstock.spark.pipelines.migration import SCHEMA, publish_file
from penstock.spark.pipelines.run import Run, RunOptions, started
from penstock.spark.pipelines.state import Chunk, Ledger, work_off

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.spark.pipelines.run import Summary

_AT_ONCE = 10


def migrate_sqs(
    queue_url: str,
    topic: str,
    *,
    client: Any = None,
    endpoint: str | None = None,
    region: str | None = None,
    keep: bool = False,
    lease: timedelta = timedelta(minutes=10),
    chunk_rows: int = 2000,
    **run: Unpack[RunOptions],
) -> Summary:
    """Move the messages of an SQS queue to a topic, until it is empty or (not once) for ever.

    With `keep` messages are not deleted; they come back in SQS when the `lease` ends.
    """
    with started("migrate-sqs", run, queue_url, topic) as going:
        work = _Sqs(
            going,
            client or _client(endpoint, region),
            queue_url=queue_url,
            topic=topic,
            keep=keep,
            lease=lease,
            chunk_rows=chunk_rows,
        )
        work_off(Ledger(going.state), work.do, work.more)
        return going.summary(to=topic, repeated=work.repeated or None)


def _client(endpoint: str | None, region: str | None) -> Any:
    try:
        import boto3  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415
    except ModuleNotFoundError:
        raise InvalidSetting("migrating from SQS needs boto3: pip install boto3") from None
    return boto3.client("sqs", endpoint_url=endpoint, region_name=region)


class _Sqs:
    """A chunk is received and kept on disk first; then it is the same chunk, whatever happens."""

    def __init__(
        self,
        run: Run,
        client: Any,
        *,
        queue_url: str,
        topic: str,
        keep: bool,
        lease: timedelta,
        chunk_rows: int,
    ) -> None:
        self._run, self._client, self._url, self._topic = run, client, queue_url, topic
        self._keep, self._chunk_rows = keep, chunk_rows
        self._lease_seconds = round(lease.total_seconds())
        self._folder: Path = run.state.folder / "received"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._seen = set(self._kept_ids())
        self._app = Ledger(run.state).app
        self.repeated = 0

    def _kept_ids(self) -> Iterator[str]:
        for path in self._folder.glob("*.parquet"):
            yield from pq.read_table(path, columns=["source_id"])["source_id"].to_pylist()

    def more(self) -> dict[str, Any] | None:
        """Receive the next chunk; None when the queue has nothing more."""
        while True:
            rows, handles = self._receive()
            if rows:
                name = f"{Ledger(self._run.state).planned():08}.parquet"
                pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), self._folder / f".{name}")
                (self._folder / f".{name}").replace(self._folder / name)
                return {"file": name, "handles": handles}
            if self._run.once:
                return None
            time.sleep(self._run.every.total_seconds())

    def _receive(self) -> tuple[list[dict[str, Any]], list[str]]:
        rows: list[dict[str, Any]] = []
        handles: list[str] = []
        while len(rows) < self._chunk_rows:
            found = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=_AT_ONCE,
                VisibilityTimeout=self._lease_seconds,
                WaitTimeSeconds=0 if rows else 1,
                MessageAttributeNames=["All"],
                AttributeNames=["All"],
            ).get("Messages", [])
            if not found:
                break
            new = [each for each in found if each["MessageId"] not in self._seen]
            self._delete(
                [each["ReceiptHandle"] for each in found if each["MessageId"] in self._seen]
            )
            self.repeated += len(found) - len(new)
            if self._keep and not new:
                break
            self._seen |= {each["MessageId"] for each in new}
            rows += [_message(each, self._topic) for each in new]
            handles += [each["ReceiptHandle"] for each in new]
        return rows, handles

    def do(self, chunk: Chunk) -> dict[str, Any]:
        path = self._folder / chunk.work["file"]
        publish_file(self._run, path, self._app, chunk.number)
        self._delete(chunk.work["handles"])
        rows = int(pq.read_metadata(path).num_rows)
        self._run.teller.add(rows)
        self._run.teller.tell()
        return {"rows": rows}

    def _delete(self, handles: list[str]) -> None:
        if self._keep:
            return
        for start in range(0, len(handles), _AT_ONCE):
            part = handles[start : start + _AT_ONCE]
            entries = [{"Id": str(n), "ReceiptHandle": handle} for n, handle in enumerate(part)]
            self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)


def _message(found: dict[str, Any], topic: str) -> dict[str, Any]:
    attributes = {
        name: each.get("StringValue") or str(each.get("BinaryValue"))
        for name, each in found.get("MessageAttributes", {}).items()
    }
    about = found.get("Attributes", {})
    return {
        "source_id": found["MessageId"],
        "topic": topic,
        "value": as_json(found["Body"]),
        "key": about.get("MessageGroupId"),
        "headers": marked(
            as_json(attributes),
            original_id=found["MessageId"],
            original_topic="sqs",
            original_published_at=about.get("SentTimestamp"),
        ),
    }
