"""Publishing: one message, many, or an endless stream of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import errors
from penstock.client import calls, staging
from penstock.client._async.concurrency import monotonic, sleep
from penstock.client._async.core import Core
from penstock.client.iterating import batches_async
from penstock.client.values import duration, each, payload_list, refuse
from penstock.models import Published, PublishedMany
from penstock.observe import Event, Name, emit, spans

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from psycopg import AsyncConnection

    from penstock.models import Json

_FIRST_LOOK = 0.01
_SLOWEST_LOOK = 0.5


class Publishing(Core):
    """The publisher's side."""

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

        `connection`: inside the transaction open there.  `wait`: as `wait_processed()`, and the
        answer's `.processed` tells.  With a `dedupe_key` even a lost connection is mended: without,
        OutcomeUnknown says that nobody knows whether it was published.
        """
        refuse("delay", delay, "deliver_after", deliver_after)
        refuse("expires_in", expires_in, "expires_at", expires_at)
        refuse("wait", wait, "connection", connection, "nobody sees it before you commit")
        duration("wait", wait)
        with spans.publishing(topic) as trace:
            call = calls.publish(
                topic,
                payload,
                headers=spans.joined(headers, trace),
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
        refuse("wait", wait, "connection", connection, "nobody sees them before you commit")
        duration("wait", wait)
        batch = payload_list(payloads)
        with spans.publishing(topic, len(batch)) as trace:
            call = calls.publish_many(
                topic,
                batch,
                headers=each(spans.joined_each(headers, trace)),
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
        async for batch in batches_async(payloads, batch_size):
            lines = staging.lines(batch)
            copy = partial(_copy, topic=topic, lines=lines)
            if connection is None:
                await self.database.transact(copy, repeat=staging.repeat(lines))
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


async def _copy(
    connection: AsyncConnection[Any], *, topic: str, lines: Iterable[staging.Line]
) -> None:
    async with connection.cursor() as cursor:
        await cursor.execute("select penstock.create_stage()")
        async with cursor.copy(staging.COPY) as copy:
            for line in lines:
                await copy.write_row(line)
        await cursor.execute("select penstock.publish_stage(%s)", (topic,))
        await cursor.execute("drop table pg_temp.penstock_stage")
