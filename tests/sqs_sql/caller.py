"""The actions of SQS as psql users call them.

`sqs("SendMessage", QueueUrl="q", MessageBody="x")` gives the answer; `sqs.refusal(...)` the error
that it must end with.  The few actions that nearly every test performs have a verb of their own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

if TYPE_CHECKING:
    from collections.abc import Iterable

ARN = "arn:aws:sqs:us-east-1:000000000000:"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error as a server would put it on the wire."""

    code: str
    message: str
    shape: str
    status: int


class Sqs:
    """A session that performs actions."""

    def __init__(self, db: psycopg.Connection[Any], **context: Any) -> None:
        self.db = db
        self.context = context

    def __call__(self, action: str, **request: Any) -> dict[str, Any]:
        context = Jsonb(self.context) if self.context else None
        row = self.db.execute(
            "select pgqs.invoke(%s, %s, %s)", (action, Jsonb(request), context)
        ).fetchone()
        assert row is not None
        answer: dict[str, Any] = row[0]
        return answer

    def refusal(self, action: str, **request: Any) -> Refusal:
        """The error of an action that must fail."""
        with pytest.raises(psycopg.Error) as caught:
            self(action, **request)
        error = caught.value.diag
        assert error.sqlstate == "PQ400", caught.value
        assert error.message_primary is not None
        detail = json.loads(error.message_detail or "{}")
        return Refusal(
            detail["query_code"], error.message_primary, detail["shape"], detail["status"]
        )

    def many(self, action: str, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        rows = self.db.execute(
            "select * from pgqs.invoke_many(%s, %s)", (action, [Jsonb(each) for each in requests])
        )
        return [row[0] for row in rows]

    def create(self, name: str = "q", **attributes: Any) -> str:
        """Make a queue; FIFO when the name says so.  Returns its name, which is URL enough."""
        if name.endswith(".fifo"):
            attributes = {"FifoQueue": "true", **attributes}
        self("CreateQueue", QueueName=name, Attributes=attributes)
        return name

    def send(self, queue: str = "q", body: str = "x", **more: Any) -> dict[str, Any]:
        return self("SendMessage", QueueUrl=queue, MessageBody=body, **more)

    def post(self, group: str, *bodies: str, queue: str = "q.fifo") -> None:
        """Messages of one group of a FIFO queue; each body is its own deduplication id."""
        for body in bodies:
            self.send(queue, body, MessageGroupId=group, MessageDeduplicationId=body)

    def receive(self, queue: str = "q", count: int = 10, **more: Any) -> list[dict[str, Any]]:
        answer = self("ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=count, **more)
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def bodies(self, queue: str = "q", count: int = 10, **more: Any) -> list[str]:
        return [message["Body"] for message in self.receive(queue, count, **more)]

    def delete(self, message: dict[str, Any], queue: str = "q") -> None:
        self("DeleteMessage", QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])

    def hide(self, message: dict[str, Any], seconds: int, queue: str = "q") -> None:
        """ChangeMessageVisibility."""
        self(
            "ChangeMessageVisibility",
            QueueUrl=queue,
            ReceiptHandle=message["ReceiptHandle"],
            VisibilityTimeout=seconds,
        )

    def attributes(self, queue: str = "q", names: Iterable[str] = ("All",)) -> dict[str, str]:
        answer = self("GetQueueAttributes", QueueUrl=queue, AttributeNames=list(names))
        found: dict[str, str] = answer.get("Attributes", {})
        return found

    def set(self, queue: str = "q", **attributes: Any) -> None:
        self("SetQueueAttributes", QueueUrl=queue, Attributes=attributes)

    def counts(self, queue: str = "q") -> tuple[int, int, int]:
        """Visible, in flight, delayed."""
        found = self.attributes(queue)
        name = "ApproximateNumberOfMessages"
        return int(found[name]), int(found[f"{name}NotVisible"]), int(found[f"{name}Delayed"])


def redrive(target: str, times: int | str) -> str:
    return json.dumps({"deadLetterTargetArn": ARN + target, "maxReceiveCount": times})
