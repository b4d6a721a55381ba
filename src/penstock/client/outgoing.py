"""Rows for the stage that COPY fills: what a stream yields, as the engine's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.payloads import encode
from penstock.postgres.call import Repeat

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from penstock.models import Json

Line = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to be published, with more to it than a payload."""

    payload: Any
    headers: dict[str, Json] | None = None
    key: str | None = None
    priority: int = 0
    deliver_after: datetime | None = None
    expires_at: datetime | None = None
    correlation_id: str | None = None
    tenant_id: str | None = None
    dedupe_key: str | None = None


COPY = f"copy pg_temp.penstock_stage ({', '.join(Outgoing.__slots__)}) from stdin"


def lines(batch: Iterable[Any]) -> list[Line]:
    """One row for each.  All are encoded before the first is sent: a bad one costs nothing."""
    return [_line(item if isinstance(item, Outgoing) else Outgoing(item)) for item in batch]


def repeat(batch: Iterable[Line]) -> Repeat:
    """Whether the engine notices what it has got already."""
    place = Outgoing.__slots__.index("dedupe_key")
    recognised = all(line[place] is not None for line in batch)
    return Repeat.ALWAYS if recognised else Repeat.BEFORE_SENDING


def _line(message: Outgoing) -> Line:
    _payload, _headers, *rest = (getattr(message, name) for name in Outgoing.__slots__)
    headers = None if message.headers is None else encode(message.headers)
    return (encode(message.payload), headers, *rest)
