"""The client: everything that can be done with queues, over one pair of connection pools."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, Unpack, overload

from penstock import errors
from penstock.client import calls, consumer_options, outgoing, reply
from penstock.client._async.consumer import Consumer
from penstock.client._async.maintenance import maintain
from penstock.client._async.message import Message
from penstock.client._async.temporary_queue import TemporaryQueue
from penstock.client.batches import batches_async
from penstock.client.consumer_options import Mode, Options
from penstock.client.values import CLAIM_FOR, duration, each, new_token, payload_list, refuse
from penstock.models import Published, PublishedMany
from penstock.observe import Event, Name, emit, events
from penstock.payloads import codec_for
from penstock.postgres._async.concurrency import monotonic, on_fork, sleep
from penstock.postgres._async.database import Database
from penstock.postgres._async.listener import Listener
from penstock.postgres.session import listener_times
from penstock.settings import Settings, SettingsOptions

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterable,
        Callable,
        Iterable,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime
    from types import TracebackType

    from psycopg import AsyncConnection

    from penstock.models import (
        BrowsedMessage,
        ClaimedMessage,
        DeadLetter,
        HealthCheck,
        Json,
        KeyCount,
        LogMessage,
        MaintenanceStep,
        MessageId,
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
    from penstock.postgres.call import Call

P = TypeVar("P")
T = TypeVar("T")

# Consumers and listeners of a parent process: they end with it, and not here.
_of_parent: list[object] = []

# wait_processed() looks this often: at first, and at most.
_FIRST_LOOK = 0.01
_SLOWEST_LOOK = 0.5
POLLING_INTERVAL = timedelta(seconds=1)
PAGE = 500
"""Messages that browse() reads with one call."""
_TAIL_SECONDS = 5.0


def connect(
    dsn: str | None = None, *, settings: Settings | None = None, **options: Unpack[SettingsOptions]
) -> Client:
    """A client of the database: `async with penstock.connect() as mq`.

    Without a DSN, here or in PENSTOCK_DSN, an embedded PostgreSQL is used.  `options` are fields of
    `Settings`, or give those whole.
    """
    if settings is None:
        settings = Settings.load(dsn=dsn, **options)
    elif dsn is not None or options:
        raise errors.InvalidSetting(
            "settings= is all there is: leave out the DSN and other options"
        )
    return Client(settings)


class Next(NamedTuple, Generic[P]):
    """What `ack_and_claim` has done."""

    acked: list[MessageId]
    """Those whose claim still held.  For the others nothing was changed."""
    messages: list[Message[P]]
    """Claimed now; none when nothing was there to be claimed."""


class Client:
    """Open it with `async with`, or with `open()` and `close()`; many tasks may share it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.database = Database(settings)
        self._listener: Listener | None = None
        self.consumers: set[Consumer[Any]] = set()
        """Those that are open: they end before the connections do."""
        on_fork(self._forget_parent)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def listener(self) -> Listener:
        """Wakes consumers that wait for a queue; it connects when the first one waits."""
        if self._listener is None:
            self._listener = Listener(self.database, listener_times(self.settings.heartbeat))
        return self._listener

    async def run(self, call: Call[T], *, connection: Any = None) -> T:
        """Run any call of `penstock.client.calls`."""
        return await self.database.run(call, connection=connection)

    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection[Any]]:
        """A psycopg connection in a transaction, which the end of the block commits.

        Give it to calls as `connection=`: what they do and what you do commits together.
        """
        return self.database.transaction()

    async def open(self) -> None:
        """Connect; `async with` does it too."""
        await self.database.open()

    async def close(self) -> None:
        """End every connection."""
        for consumer in list(self.consumers):
            await consumer.close()
        listener, self._listener = self._listener, None
        try:
            if listener is not None:
                await listener.close()
        finally:
            await self.database.close()

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        headers: Mapping[str, Json] | None = None,
        key: str | None = None,
        priority: int | None = None,
        delay: timedelta | None = None,
        deliver_after: datetime | None = None,
        expires_in: timedelta | None = None,
        expires_at: datetime | None = None,
        dedupe_key: str | None = None,
        dedupe_window: timedelta | None = None,
        correlation_id: str | None = None,
        tenant_id: str | None = None,
        connection: Any = None,
        wait: timedelta | None = None,
    ) -> Published:
        """Publish a message to every queue of a topic.

        `connection`: inside the transaction open there; a transactional handler's own need not be
        named.  `wait`: as `wait_processed()`, and the
        answer's `.processed` tells.  With a `dedupe_key` the call is repeated even after a lost
        connection.  Without one it then raises OutcomeUnknown: the message may be published or not.
        """
        refuse("delay", delay, "deliver_after", deliver_after)
        refuse("expires_in", expires_in, "expires_at", expires_at)
        refuse("wait", wait, "connection", connection, "no consumer sees it before you commit")
        if wait is None:
            connection = connection or self.database.lent_connection()
        duration("wait", wait)
        with events.publishing(topic) as trace:
            call = calls.publish(
                topic,
                payload,
                headers=events.joined(headers, trace),
                key=key,
                priority=priority,
                delay=delay,
                deliver_after=deliver_after,
                expires_after=expires_in,
                expires_at=expires_at,
                dedupe_key=dedupe_key,
                dedupe_window=dedupe_window,
                correlation_id=correlation_id,
                tenant_id=tenant_id,
            )
            number = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_PUBLISHED, topic=topic, message_id=number))
        if wait is None:
            return Published(number)
        return Published(number, processed=await self.wait_processed(topic, [number], wait))

    async def publish_many(
        self,
        topic: str,
        payloads: Iterable[Any],
        *,
        headers: Mapping[str, Json] | Sequence[Mapping[str, Json] | None] | None = None,
        keys: str | Sequence[str | None] | None = None,
        priorities: int | Sequence[int] | None = None,
        delays: timedelta | Sequence[timedelta | None] | None = None,
        deliver_after: datetime | Sequence[datetime | None] | None = None,
        expires_in: timedelta | Sequence[timedelta | None] | None = None,
        expires_at: datetime | Sequence[datetime | None] | None = None,
        dedupe_keys: Sequence[str | None] | None = None,
        dedupe_window: timedelta | None = None,
        correlation_ids: str | Sequence[str | None] | None = None,
        tenant_ids: str | Sequence[str | None] | None = None,
        connection: Any = None,
        wait: timedelta | None = None,
    ) -> PublishedMany:
        """Publish messages in one statement, all or none; ids come in the order of the payloads.

        An option is one value for all of them, or a list with one for each.
        """
        refuse("delays", delays, "deliver_after", deliver_after)
        refuse("expires_in", expires_in, "expires_at", expires_at)
        refuse("wait", wait, "connection", connection, "no consumer sees them before you commit")
        if wait is None:
            connection = connection or self.database.lent_connection()
        duration("wait", wait)
        batch = payload_list(payloads)
        with events.publishing(topic, len(batch)) as trace:
            call = calls.publish_many(
                topic,
                batch,
                headers=each(events.joined_each(headers, trace)),
                keys=each(keys),
                priorities=each(priorities),
                delays=each(delays),
                deliver_after=each(deliver_after),
                expire_after=each(expires_in),
                expires_at=each(expires_at),
                dedupe_keys=each(dedupe_keys),
                dedupe_window=dedupe_window,
                correlation_ids=each(correlation_ids),
                tenant_ids=each(tenant_ids),
            )
            ids = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_PUBLISHED, topic=topic, count=len(ids)))
        if wait is None:
            return PublishedMany(ids)
        return PublishedMany(ids, processed=await self.wait_processed(topic, ids, wait))

    async def publish_stream(
        self,
        topic: str,
        payloads: Iterable[Any] | AsyncIterable[Any],
        *,
        progress: Callable[[int], None] | None = None,
        batch_size: int = 5000,
        connection: AsyncConnection[Any] | None = None,
    ) -> int:
        """Publish everything an iterable yields, of any length, with COPY; the answer is how many.

        Each batch commits by itself, so consumers begin at once and a failure keeps what was
        published before; with a psycopg connection of yours, all of it is in your transaction.
        Yield `penstock.Outgoing` where a message needs a key, headers or a priority of its own.
        `progress` is called with the number published so far.
        """
        published = 0
        connection = connection or self.database.lent_connection()
        async for batch in batches_async(payloads, batch_size):
            lines = outgoing.lines(batch)
            copy = partial(_copy, topic=topic, lines=lines)
            if connection is None:
                await self.database.transact(copy, repeat=outgoing.repeat(lines))
            else:
                with errors.translated():
                    await copy(connection)
            published += len(batch)
            emit(Event(Name.MESSAGE_PUBLISHED, topic=topic, count=len(batch)))
            if progress is not None:
                progress(published)
        return published

    async def wait_processed(
        self,
        topic: str,
        message_ids: Sequence[int],
        timeout: timedelta,  # noqa: ASYNC109
    ) -> bool:
        """Wait until every queue of the topic is done with these messages; False: not in time.

        It looks at what is, not at what happens, so a message that was processed before the wait
        began counts like any other.  A queue whose filter keeps a message out is not waited for.
        """
        duration("timeout", timeout)
        end = monotonic() + timeout.total_seconds()
        pause = _FIRST_LOOK
        while not await self.run(calls.all_done(topic, message_ids)):
            left = end - monotonic()
            if left <= 0:
                return False
            await sleep(min(pause, left))
            pause = min(pause * 2, _SLOWEST_LOOK)
        return True

    @overload
    async def claim(
        self,
        queue: str,
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
        token: str | None = None,
        payload_type: type[P],
    ) -> list[Message[P]]: ...

    @overload
    async def claim(
        self,
        queue: str,
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
        token: str | None = None,
        payload_type: Any = None,
    ) -> list[Message[Any]]: ...

    async def claim(
        self,
        queue: str,
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
        token: str | None = None,
        payload_type: Any = None,
    ) -> list[Message[Any]]:
        """Claim up to `count` messages for that long; none when nothing is there to be claimed.

        A payload that does not fit its type raises when it is read: see `Message.payload`.
        """
        codec = codec_for(payload_type)
        token = token or new_token()
        claimed = await self.database.claim(calls.consume_batch(queue, token, claim_for, count))
        if claimed:
            emit(Event(Name.MESSAGE_CLAIMED, queue=queue, count=len(claimed)))
        return [Message(self.database, queue, token, each, codec) for each in claimed]

    async def ack_and_claim(
        self,
        done: Sequence[Message[P]],
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
    ) -> Next[P]:
        """Ack these messages and claim up to `count` others, in one transaction.

        For consumers that loop: it saves a round trip and a commit.  The messages come from one
        claim, and the new ones have the same token and payload type.
        """
        first = _of_one_claim(done)
        call = calls.ack_and_claim(
            first.queue, [each.id for each in done], first.token, claim_for, count
        )
        acked, claimed = await self.run(call)
        if acked:
            emit(Event(Name.MESSAGE_ACKED, queue=first.queue, count=len(acked)))
        if claimed:
            emit(Event(Name.MESSAGE_CLAIMED, queue=first.queue, count=len(claimed)))
        return Next(acked, [first.beside(each) for each in claimed])

    async def ack_many(
        self, queue: str, message_ids: Sequence[int], token: str, *, connection: Any = None
    ) -> list[MessageId]:
        """Done, all of them; the answer holds the ids that the token still held."""
        call = calls.ack_many(queue, message_ids, token)
        held = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_ACKED, queue=queue, count=len(held)))
        return held

    async def nack_many(
        self,
        queue: str,
        message_ids: Sequence[int],
        token: str,
        *,
        delay: timedelta | None = None,
        error: str | BaseException | None = None,
        connection: Any = None,
    ) -> list[MessageId]:
        """Failed, all of them."""
        call = calls.nack_many(queue, message_ids, token, delay=delay, error=error)
        held = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_FAILED, queue=queue, count=len(held)))
        for message_id, dead in held.items():
            if dead:
                emit(Event(Name.MESSAGE_DEAD_LETTERED, queue=queue, message_id=message_id))
        return list(held)

    async def release_many(
        self, queue: str, message_ids: Sequence[int], token: str, *, connection: Any = None
    ) -> list[MessageId]:
        """Give them back as if they had never been claimed."""
        call = calls.release_many(queue, message_ids, token)
        held = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_RELEASED, queue=queue, count=len(held)))
        return held

    async def extend_many(
        self, queue: str, message_ids: Sequence[int], token: str, extension: timedelta
    ) -> dict[MessageId, datetime]:
        """Keep them for longer; the answer holds the new end of each claim that still held."""
        extended = await self.run(calls.extend_many(queue, message_ids, token, extension))
        held = dict(extended)
        emit(Event(Name.CLAIM_EXTENDED, queue=queue, count=len(held)))
        return held

    async def bury(
        self,
        queue: str,
        message_id: int,
        token: str,
        *,
        error: str | BaseException | None = None,
        connection: Any = None,
    ) -> bool:
        """Hopeless: to the dead letters, whatever its attempts."""
        call = calls.bury(queue, message_id, token, error=error)
        held = await self.run(call, connection=connection)
        if held:
            emit(Event(Name.MESSAGE_DEAD_LETTERED, queue=queue, message_id=message_id))
        return held

    @overload
    def consume(
        self,
        queue: str,
        *,
        mode: Mode | str = Mode.HYBRID,
        batch_size: int = 10,
        prefetch: int = 0,
        polling_interval: timedelta = POLLING_INTERVAL,
        max_polling_interval: timedelta | None = None,
        claim_for: timedelta = CLAIM_FOR,
        give_up_after: int | None = None,
        payload_type: type[P],
    ) -> Consumer[P]: ...

    @overload
    def consume(
        self,
        queue: str,
        *,
        mode: Mode | str = Mode.HYBRID,
        batch_size: int = 10,
        prefetch: int = 0,
        polling_interval: timedelta = POLLING_INTERVAL,
        max_polling_interval: timedelta | None = None,
        claim_for: timedelta = CLAIM_FOR,
        give_up_after: int | None = None,
        payload_type: Any = None,
    ) -> Consumer[Any]: ...

    def consume(
        self,
        queue: str,
        *,
        mode: Mode | str = Mode.HYBRID,
        batch_size: int = 10,
        prefetch: int = 0,
        polling_interval: timedelta = POLLING_INTERVAL,
        max_polling_interval: timedelta | None = None,
        claim_for: timedelta = CLAIM_FOR,
        give_up_after: int | None = None,
        payload_type: Any = None,
    ) -> Consumer[Any]:
        """The queue's messages, as they come: `async for message in mq.consume("billing")`.

        One claim takes up to `batch_size` messages for `claim_for`; with `prefetch`, the next claim
        is made while fewer than that many wait in memory.  What was claimed and not handed out is
        released when the loop is left.  A payload that is no `payload_type` goes to the dead
        letters with the reason.  Which messages a queue gets is decided in the database: see the
        `filter` of `create_queue`.
        """
        wanted = consumer_options.possible_mode(
            consumer_options.mode_named(mode), pooler=self.settings.pooler
        )
        options = Options(
            mode=wanted,
            batch_size=batch_size,
            prefetch=prefetch,
            polling_interval=polling_interval,
            max_polling_interval=max_polling_interval,
            claim_for=claim_for,
            give_up_after=give_up_after,
        )
        return Consumer(self, queue, options, payload_type)

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

        It reads from a queue of its own, which lasts as long as the loop.  So it takes no message
        from another consumer.
        """
        topic, wanted = await self._source(name)
        own = TemporaryQueue(self, f"tail-{uuid.uuid4().hex}", topic=topic, wanted=wanted)
        async with own:
            while True:
                for message in await own.take(_TAIL_SECONDS):
                    yield message

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
        wanted = reply.reply_filter(name)
        async with TemporaryQueue(self, name, topic=reply.REPLIES, wanted=wanted) as queue:
            call = calls.publish(
                topic,
                payload,
                headers=reply.request_headers(headers, name),
                key=key,
                priority=priority,
                correlation_id=number,
                # After the timeout no caller waits for the answer, so the request expires then.
                expires_after=timeout,
                dedupe_key=number,
            )
            await self.run(call)
            for found in await queue.take(end - monotonic()):
                return Message(self.database, name, "", found, codec)
        raise errors.NoReply(
            f'no reply came within {timeout} to the request on topic "{topic}": '
            "see whether a queue of it has a consumer that calls message.reply()"
        )

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

    async def _source(self, name: str) -> tuple[str, dict[str, Json] | None]:
        if any(topic.name == name for topic in await self.run(calls.list_topics())):
            return name, None
        for queue in await self.run(calls.list_queues()):
            if queue.name == name:
                return queue.topic, queue.filter
        raise errors.UnknownName(f'there is neither a topic nor a queue named "{name}"')

    def _forget_parent(self) -> None:
        """In a forked process: the parent's consumers and its listener are not ours."""
        _of_parent.extend((self._listener, self.consumers))
        self._listener = None
        self.consumers = set()


def _of_one_claim(done: Sequence[Message[P]]) -> Message[P]:
    if not done:
        raise errors.InvalidSetting(
            "ack_and_claim needs the messages that are done: begin with claim()"
        )
    first = done[0]
    if any((each.queue, each.token) != (first.queue, first.token) for each in done):
        raise errors.InvalidSetting(
            "ack_and_claim got messages of several claims: call it with those of one claim(), "
            "or claim with the same token"
        )
    return first


async def _copy(
    connection: AsyncConnection[Any], *, topic: str, lines: Iterable[outgoing.Line]
) -> None:
    async with connection.cursor() as cursor:
        await cursor.execute("select penstock.create_stage()")
        async with cursor.copy(outgoing.COPY) as copy:
            for line in lines:
                await copy.write_row(line)
        await cursor.execute("select penstock.publish_stage(%s)", (topic,))
        await cursor.execute("drop table pg_temp.penstock_stage")
