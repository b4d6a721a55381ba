"""Calls that publish."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.client.values import column, duration, given, moment, nothing, one, text, whole
from penstock.models import MessageId
from penstock.payloads import encode
from penstock.postgres.call import Call, Repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from penstock.models import Json

T = TypeVar("T")
DEDUPE_WINDOW = timedelta(minutes=5)
"""How long the engine remembers a dedupe key, unless the caller or the database says otherwise."""
_FROM_NOW = (
    "array(select penstock.clock() + d from unnest(%s::interval[]) with ordinality u(d, n) "
    "order by n)"
)
STAGE_COLUMNS = ("payload", "headers", "key", "priority", "correlation_id", "tenant_id")
COPY_INTO_STAGE = f"copy penstock_stage ({', '.join(STAGE_COLUMNS)}) from stdin"


def publish(
    topic: str,
    payload: Any,
    *,
    delay: timedelta | None = None,
    deliver_after: datetime | None = None,
    headers: Mapping[str, Json] | None = None,
    key: str | None = None,
    priority: int | None = None,
    expires_after: timedelta | None = None,
    expires_at: datetime | None = None,
    dedupe_key: str | None = None,
    dedupe_window: timedelta | None = None,
    correlation_id: str | None = None,
    tenant_id: str | None = None,
) -> Call[MessageId]:
    """With a dedupe key it may be sent any number of times."""
    # Durations become times in the database, so that no client's clock is ever asked.
    options, values = given(
        ("deliver_after => penstock.clock() + %s::interval", duration("delay", delay)),
        ("deliver_after => %s::timestamptz", moment("deliver_after", deliver_after)),
        ("headers => %s::text::jsonb", None if headers is None else encode(headers)),
        ("key => %s", text("key", key)),
        ("priority => %s::int", whole("priority", priority)),
        ("expires_at => penstock.clock() + %s::interval", duration("expires_in", expires_after)),
        ("expires_at => %s::timestamptz", moment("expires_at", expires_at)),
        ("dedupe_key => %s", text("dedupe_key", dedupe_key)),
        ("dedupe_window => %s::interval", duration("dedupe_window", dedupe_window)),
        ("correlation_id => %s", text("correlation_id", correlation_id)),
        ("tenant_id => %s", text("tenant_id", tenant_id)),
    )
    return Call(
        f"select penstock.publish_message(%s, %s::text::jsonb{options})",
        (topic, encode(payload), *values),
        one(MessageId),
        repeat=_repeat([dedupe_key]),
        recognised_for=dedupe_window or DEDUPE_WINDOW,
    )


def publish_many(
    topic: str,
    payloads: Sequence[Any],
    *,
    delays: Sequence[timedelta | None] | None = None,
    deliver_after: Sequence[datetime | None] | None = None,
    headers: Sequence[Mapping[str, Json] | None] | None = None,
    keys: Sequence[str | None] | None = None,
    priorities: Sequence[int] | None = None,
    expire_after: Sequence[timedelta | None] | None = None,
    expires_at: Sequence[datetime | None] | None = None,
    dedupe_keys: Sequence[str | None] | None = None,
    dedupe_window: timedelta | None = None,
    correlation_ids: Sequence[str | None] | None = None,
    tenant_ids: Sequence[str | None] | None = None,
) -> Call[list[MessageId]]:
    """One statement for all.  An option has one value for each payload, or a single one for all."""
    options, values = given(
        (f"deliver_after => {_FROM_NOW}", _checked(duration, "delays", delays)),
        ("deliver_after => %s::timestamptz[]", _checked(moment, "deliver_after", deliver_after)),
        (
            "headers => %s::text[]::jsonb[]",
            _texts(headers),
        ),
        ("keys => %s::text[]", _checked(text, "keys", keys)),
        ("priorities => %s::int[]", _checked(whole, "priorities", priorities)),
        (f"expires_at => {_FROM_NOW}", _checked(duration, "expires_in", expire_after)),
        ("expires_at => %s::timestamptz[]", _checked(moment, "expires_at", expires_at)),
        ("dedupe_keys => %s::text[]", _checked(text, "dedupe_keys", dedupe_keys)),
        ("dedupe_window => %s::interval", duration("dedupe_window", dedupe_window)),
        ("correlation_ids => %s::text[]", _checked(text, "correlation_ids", correlation_ids)),
        ("tenant_ids => %s::text[]", _checked(text, "tenant_ids", tenant_ids)),
    )
    return Call(
        f"select penstock.publish_messages(%s, %s::text[]::jsonb[]{options})",
        (topic, [encode(payload) for payload in payloads], *values),
        column(MessageId),
        repeat=_repeat(dedupe_keys or [None]),
        recognised_for=dedupe_window or DEDUPE_WINDOW,
    )


def create_stage() -> Call[None]:
    return Call("select penstock.create_stage()", (), nothing)


def publish_stage(topic: str) -> Call[int]:
    """What was copied into the stage becomes messages; the answer is their number."""
    return Call("select penstock.publish_stage(%s)", (topic,), one(int))


def _checked(
    check: Callable[[str, T | None], T | None], name: str, values: Sequence[T | None] | None
) -> list[T | None] | None:
    return None if values is None else [check(name, value) for value in values]


def _texts(values: Sequence[Json] | None) -> list[str | None] | None:
    if values is None:
        return None
    return [None if value is None else encode(value) for value in values]


def _repeat(dedupe_keys: Sequence[str | None]) -> Repeat:
    return Repeat.BEFORE_SENDING if None in dedupe_keys else Repeat.ALWAYS
