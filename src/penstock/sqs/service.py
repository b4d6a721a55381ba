"""Actions, carried out by the database; where requests meet, together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.sqs import calls, errors
from penstock.sqs.carrying import Carrier
from penstock.sqs.gather import Ask, Gatherer

if TYPE_CHECKING:
    from penstock.client._async.database import Database
    from penstock.sqs.names import QueueId

RECEIVE = "ReceiveMessage"
NOTHING = b"{}"
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


class Service:
    """Every action of SQS as JSON in and JSON out."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._durable = Carrier(database, durable=True)
        self._claims = Carrier(database, durable=False)
        self._changes = Gatherer(self._durable.begin, most=_MOST_CHANGES, width=_WIDTH, mixed=True)
        # A claim wants a transaction of its own: it holds the lock of its queue until the end.
        self._receives = Gatherer(
            self._claims.begin, most=_MOST_RECEIVES, width=_WIDTH, mixed=False
        )
        self._gatherers = {RECEIVE: self._receives} | dict.fromkeys(_CHANGES, self._changes)

    async def call(self, action: str, queue: QueueId | None, ask: Ask) -> bytes:
        """The answer; raises the fault that the database found."""
        gatherer = self._gatherers.get(action)
        if gatherer is None or queue is None or not queue.is_valid:
            answer = await self._database.run(calls.invoke(action, ask))
        else:
            answer = await gatherer.ask(action, queue.engine_name, ask)
        if answer.startswith(_ERROR):
            raise errors.from_database(msgspec.json.decode(answer)["__error"])
        return answer

    async def give_back(self, queue: QueueId, answer: bytes, context: bytes) -> None:
        """Make received messages visible again, because nobody is there to take them."""
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
            ask = Ask(msgspec.json.encode(request), context)
            await self.call("ChangeMessageVisibilityBatch", queue, ask)

    async def close(self) -> None:
        """Wait until every statement under way is done, then let the connections go."""
        await self._receives.settle()
        await self._changes.settle()
        await self._durable.close()
        await self._claims.close()
