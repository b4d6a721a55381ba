"""Looking at messages without taking them from anybody."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from penstock.client import calls
from penstock.client._async.core import Core
from penstock.client._async.temporary import TemporaryQueue
from penstock.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from penstock.models import BrowsedMessage, ClaimedMessage, Json

PAGE = 500
_REST = 5.0


class Viewing(Core):
    """For people, dashboards and tests."""

    async def browse(
        self, queue: str, *, after: int = 0, key: str | None = None
    ) -> AsyncGenerator[BrowsedMessage]:
        """Every message that the queue is not done with, by id; of one key, if it is given."""
        while page := await self.run(calls.browse(queue, after=after, page_size=PAGE)):
            for message in page:
                if key is None or message.key == key:
                    yield message
            after = page[-1].id

    async def tail(self, name: str) -> AsyncGenerator[ClaimedMessage]:
        """Messages of a topic, or of a queue, as they come from now on; it ends when you leave it.

        It looks through a queue of its own, which lasts as long as the loop, so nobody misses any.
        """
        topic, wanted = await self._source(name)
        own = TemporaryQueue(self, f"tail-{uuid.uuid4().hex}", topic=topic, wanted=wanted)
        async with own:
            while True:
                for message in await own.take(_REST):
                    yield message

    async def _source(self, name: str) -> tuple[str, dict[str, Json] | None]:
        if any(topic.name == name for topic in await self.run(calls.list_topics())):
            return name, None
        for queue in await self.run(calls.list_queues()):
            if queue.name == name:
                return queue.topic, queue.filter
        raise UnknownName(f'there is neither a topic nor a queue named "{name}"')
