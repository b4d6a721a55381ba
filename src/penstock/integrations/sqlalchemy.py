"""SQLAlchemy: publish in the session's own transaction, with the session's own connection.

    with Session(engine) as session, session.begin():
        session.add(order)
        publish(session, "orders", {"order": order.id})

The message exists when the transaction commits, and only then: an outbox without an outbox table
and without a relay.  A savepoint that is rolled back takes its messages with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import penstock
import penstock.sync
from penstock.extras import needs
from penstock.settings import Settings

with needs("sqlalchemy"):
    from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.models import Published, PublishedMany

# Never opened: everything runs on the caller's connection.
_blocking = penstock.sync.Client(Settings())
_awaited = penstock.Client(Settings())

Change = Literal["insert", "update", "delete"]


def publish(session: Any, topic: str, payload: Any, **options: Any) -> Published:
    """Publish with a Session or Connection; the options are those of `Client.publish`."""
    return _blocking.publish(topic, payload, connection=session, **options)


def publish_many(
    session: Any, topic: str, payloads: Iterable[Any], **options: Any
) -> PublishedMany:
    """Publish many in one statement; the options are those of `Client.publish_many`."""
    return _blocking.publish_many(topic, payloads, connection=session, **options)


async def publish_async(session: Any, topic: str, payload: Any, **options: Any) -> Published:
    """Publish with an AsyncSession or AsyncConnection, of psycopg or asyncpg."""
    return await _awaited.publish(topic, payload, connection=session, **options)


async def publish_many_async(
    session: Any, topic: str, payloads: Iterable[Any], **options: Any
) -> PublishedMany:
    """Publish many with an AsyncSession or AsyncConnection."""
    return await _awaited.publish_many(topic, payloads, connection=session, **options)


def announce(
    mapped: type,
    topic: str,
    payload: Callable[[Any], Any],
    *,
    on: Iterable[Change] = ("insert",),
    key: Callable[[Any], str | None] | None = None,
) -> None:
    """Publish whenever a row of a mapped class is written, in the flush that writes it.

    `payload` and `key` are asked with the object.  Statements that go past the session, such as
    `update(Order)`, announce nothing.  Works in sync and async sessions.
    """
    for change in on:
        event.listen(mapped, f"after_{change}", _announcer(topic, payload, key), propagate=True)


def _announcer(
    topic: str, payload: Callable[[Any], Any], key: Callable[[Any], str | None] | None
) -> Callable[[Any, Any, Any], None]:
    def announce_row(_mapper: Any, connection: Any, target: Any) -> None:
        publish(connection, topic, payload(target), key=key(target) if key else None)

    return announce_row
