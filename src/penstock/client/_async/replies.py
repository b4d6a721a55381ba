"""Request and reply: publish a message, and wait for the one that answers it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from penstock.client import addresses, calls
from penstock.client._async.concurrency import monotonic
from penstock.client._async.core import Core
from penstock.client._async.message import Message
from penstock.client._async.temporary import TemporaryQueue
from penstock.client.payloads import codec_for
from penstock.client.values import duration
from penstock.errors import NoReply

if TYPE_CHECKING:
    from datetime import timedelta

    from penstock.models import Json


class Replies(Core):
    """The asking side; the answering one is `Message.reply()`."""

    async def request(
        self,
        topic: str,
        payload: Any,
        *,
        timeout: timedelta,  # noqa: ASYNC109 - of the other side
        headers: dict[str, Json] | None = None,
        key: str | None = None,
        priority: int | None = None,
        payload_type: Any = None,
    ) -> Message[Any]:
        """Publish a message and return the first reply to it; NoReply when none comes in time.

        The reply has left its queue already: there is nothing to ack.
        """
        duration("timeout", timeout)
        codec = codec_for(payload_type)
        number = uuid.uuid4().hex
        name = f"replies-{number}"
        end = monotonic() + timeout.total_seconds()
        wanted = addresses.reply_filter(name)
        async with TemporaryQueue(self, name, topic=addresses.REPLIES, wanted=wanted) as queue:
            call = calls.publish(
                topic,
                payload,
                headers=addresses.request_headers(headers, name),
                key=key,
                priority=priority,
                correlation_id=number,
                # An answer that nobody waits for any more is not worth working for.
                expires_after=timeout,
                dedupe_key=number,
            )
            await self.run(call)
            for found in await queue.take(end - monotonic()):
                return Message(self.database, name, "", found, codec)
        raise NoReply(
            f'no reply came within {timeout} to the request on topic "{topic}": '
            "see whether a queue of it has a consumer that calls message.reply()"
        )
