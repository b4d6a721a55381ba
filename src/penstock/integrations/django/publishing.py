"""Publishing through Django's own connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import connections

import penstock.sync
from penstock.integrations.django.configuration import configuration
from penstock.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.models import Published, PublishedMany

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
