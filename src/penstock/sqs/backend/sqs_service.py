"""Actions of SQS, carried out by the database: each by itself, or in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.client.calls import Call
from penstock.sqs.backend.call_batcher import CallBatcher, Invocation
from penstock.sqs.backend.database_pipe import PipePool, repeat_of
from penstock.sqs.protocol import faults

if TYPE_CHECKING:
    from penstock.postgres._async.database import Database
    from penstock.sqs.protocol.queue_names import QueueId

RECEIVE = "ReceiveMessage"
NOTHING = b"{}"
_INVOKE = "select pgqs.invoke_many(%s, array[%s::text::jsonb], array[%s::text::jsonb])::text"
_ERROR = b'{"__error"'
# Each answer of a receive may hold ten messages of 1 MiB.
_MOST_RECEIVES = 16
_MOST_CHANGES = 64
_WIDTH = 3
_CHANGES = frozenset(
    {
        "SendMessage",
        "SendMessageBatch",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
    }
)


def invoke(action: str, invocation: Invocation) -> Call[bytes]:
    """Carry out one action; a refused one answers {"__error": …}."""
    parameters = action, invocation.request.decode(), invocation.context.decode()
    return Call(_INVOKE, parameters, lambda rows: rows[0][0].encode(), repeat_of(action))


class Service:
    """Every action of SQS as JSON in and JSON out."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._durable = PipePool(database, durable=True)
        self._claims = PipePool(database, durable=False)
        self._changes = CallBatcher(
            self._durable.begin, most=_MOST_CHANGES, width=_WIDTH, mixed=True
        )
        # A claim has a transaction of its own: it holds the lock of its queue until the end.
        self._receives = CallBatcher(
            self._claims.begin, most=_MOST_RECEIVES, width=_WIDTH, mixed=False
        )
        self._batchers = {RECEIVE: self._receives} | dict.fromkeys(_CHANGES, self._changes)

    async def call(self, action: str, queue: QueueId | None, invocation: Invocation) -> bytes:
        """The answer; raises the fault that the database found."""
        batcher = self._batchers.get(action)
        if batcher is None or queue is None or not queue.is_valid:
            answer = await self._database.run(invoke(action, invocation))
        else:
            answer = await batcher.submit(action, queue.engine_name, invocation)
        if answer.startswith(_ERROR):
            raise faults.from_database(msgspec.json.decode(answer)["__error"])
        return answer

    async def give_back(self, queue: QueueId, answer: bytes, context: bytes) -> None:
        """Make received messages visible again, because their client has hung up."""
        messages: list[dict[str, Any]] = msgspec.json.decode(answer).get("Messages", [])
        if messages:
            request = {
                "QueueUrl": queue.path,
                "Entries": [
                    {
                        "Id": str(number),
                        "ReceiptHandle": message["ReceiptHandle"],
                        "VisibilityTimeout": 0,
                    }
                    for number, message in enumerate(messages)
                ],
            }
            invocation = Invocation(msgspec.json.encode(request), context)
            await self.call("ChangeMessageVisibilityBatch", queue, invocation)

    async def close(self) -> None:
        """Wait until every statement under way is done, then let the connections go."""
        await self._receives.settle()
        await self._changes.settle()
        await self._durable.close()
        await self._claims.close()
