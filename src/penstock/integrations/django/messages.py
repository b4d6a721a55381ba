"""Messages and Django's own connections: publish on them, and keep them fresh in handlers."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from django.db import close_old_connections, connections

import penstock.sync
from penstock.integrations.django.configuration import configuration
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.models import Published, PublishedMany

P = ParamSpec("P")
R = TypeVar("R")

# Never opened: everything runs on Django's connection.
_client = penstock.sync.Client(Settings())


def publish(topic: str, payload: Any, *, using: str | None = None, **options: Any) -> Published:
    """Publish in the transaction that is open; outside of one, at once.

    `using` is an alias of DATABASES, the options are those of `Client.publish`.  Inside `atomic()`
    nothing is visible before the commit, so no `transaction.on_commit` is needed.
    """
    return _client.publish(topic, payload, connection=_connection(using), **options)


def publish_many(
    topic: str, payloads: Iterable[Any], *, using: str | None = None, **options: Any
) -> PublishedMany:
    """Publish many in one statement, likewise."""
    return _client.publish_many(topic, payloads, connection=_connection(using), **options)


def _connection(using: str | None) -> Any:
    return connections[using or configuration().database]


def fresh_connections(handler: Callable[P, R]) -> Callable[P, R]:
    """For a sync handler that uses the ORM: Django's care for connections around each message.

    Between requests Django closes connections that are broken or too old.  A worker's thread has no
    requests, so without this a handler keeps a connection that a restart of the database has ended.
    """

    @wraps(handler)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        close_old_connections()
        try:
            return handler(*args, **kwargs)
        finally:
            close_old_connections()

    return wrapped
