"""Topics, queues, dead letters, readers, and how they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client import calls
from penstock.client._async.core import Core
from penstock.client._async.maintenance import maintain

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from penstock.models import (
        DeadLetter,
        HealthCheck,
        Json,
        KeyCount,
        LogMessage,
        MaintenanceStep,
        MessageState,
        Notify,
        Ordering,
        QueueId,
        QueueInfo,
        QueueStatistics,
        ReaderId,
        ReaderInfo,
        TopicId,
        TopicInfo,
    )


class Administration(Core):
    """One line for each of the engine's functions."""

    async def create_topic(self, topic: str, *, retention: timedelta | None = None) -> TopicId:
        """Create a topic; one that exists already is returned as it is."""
        return await self.run(calls.create_topic(topic, retention=retention))

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic with its queues and everything in them."""
        await self.run(calls.delete_topic(topic))

    async def list_topics(self) -> list[TopicInfo]:
        return await self.run(calls.list_topics())

    async def create_queue(
        self,
        queue: str,
        *,
        topic: str | None = None,
        exclusive: bool | None = None,
        max_delivery_attempts: int | None = None,
        keep_alive: timedelta | None = None,
        ordering: Ordering | str | None = None,
        start_at: datetime | str | None = None,
        retry_base: timedelta | None = None,
        retry_cap: timedelta | None = None,
        retention: timedelta | None = None,
        filter: dict[str, Json] | None = None,  # noqa: A002 - the engine's word for it
        notify: Notify | str | None = None,
    ) -> QueueId:
        """Create a queue on a topic, which is made if need be; the same queue again is no error."""
        call = calls.create_queue(
            queue,
            topic=topic,
            exclusive=exclusive,
            max_delivery_attempts=max_delivery_attempts,
            keep_alive=keep_alive,
            ordering=ordering,
            start_at=start_at,
            retry_base=retry_base,
            retry_cap=retry_cap,
            retention=retention,
            filter=filter,
            notify=notify,
        )
        return await self.run(call)

    async def delete_queue(self, queue: str) -> None:
        """Delete a queue with everything in it."""
        await self.run(calls.delete_queue(queue))

    async def list_queues(self) -> list[QueueInfo]:
        return await self.run(calls.list_queues())

    async def extend_queue_keep_alive(self, queue: str, keep_alive: timedelta) -> datetime:
        """Keep an exclusive queue for that long from now."""
        return await self.run(calls.extend_keep_alive(queue, keep_alive))

    async def purge_queue(self, queue: str) -> int:
        """Drop everything that is not done; the answer is how many."""
        return await self.run(calls.purge_queue(queue))

    async def pause_queue(self, queue: str) -> datetime:
        """Give out no more of its messages until it is resumed; the answer is since when."""
        return await self.run(calls.pause_queue(queue))

    async def resume_queue(self, queue: str) -> bool:
        """Give out its messages again; False: it was not paused."""
        return await self.run(calls.resume_queue(queue))

    async def queue_statistics(self, queue: str) -> QueueStatistics:
        return await self.run(calls.queue_statistics(queue))

    async def message_state(self, queue: str, message_id: int) -> MessageState | None:
        """Where a message is; None: the queue never had it, or has forgotten it."""
        return await self.run(calls.message_state(queue, message_id))

    async def next_visible_time(self, queue: str) -> datetime | None:
        """When a claim may next find something; None: the queue is empty."""
        return await self.run(calls.next_visible_time(queue))

    async def key_counts(self, queue: str, *, limit: int = 100) -> list[KeyCount]:
        """How many messages are not done yet, per key, the busiest first."""
        return await self.run(calls.key_counts(queue, limit=limit))

    async def dead_letters(self, queue: str | None = None) -> list[DeadLetter]:
        """The dead letters of a queue, or of all; the oldest first."""
        return await self.run(calls.list_dead_letters(queue))

    async def requeue(self, queue: str, message_ids: Sequence[int] | None = None) -> int:
        """Give dead letters another life: those named, or all of the queue."""
        return await self.run(calls.requeue_dead_letters(queue, message_ids))

    async def purge_dead_letters(
        self, queue: str | None = None, message_ids: Sequence[int] | None = None
    ) -> int:
        """Delete dead letters: of a queue or of all, those named or all."""
        return await self.run(calls.purge_dead_letters(queue, message_ids))

    async def create_reader(
        self, reader: str, topic: str, *, start_at: datetime | str | None = None
    ) -> ReaderId:
        """Create a position in a topic's log; it keeps the log until it has committed it."""
        return await self.run(calls.create_reader(reader, topic, start_at=start_at))

    async def delete_reader(self, reader: str) -> None:
        await self.run(calls.delete_reader(reader))

    async def list_readers(self) -> list[ReaderInfo]:
        return await self.run(calls.list_readers())

    async def read_window(self, reader: str, *, limit: int = 1000) -> list[LogMessage]:
        """A reader's next messages: the same ones again until they are committed."""
        return await self.run(calls.read_window(reader, limit=limit))

    async def commit_window(self, reader: str, through: int) -> bool:
        """The reader has dealt with its messages up to this id."""
        return await self.run(calls.commit_window(reader, through))

    async def maintain(self) -> list[MaintenanceStep]:
        """Do the housekeeping now, each step in a transaction of its own.

        A step that fails tells its error; one that another session does is left out.
        """
        return await maintain(self.run)

    async def health(self) -> list[HealthCheck]:
        """What the engine thinks of its own state."""
        return await self.run(calls.health())
