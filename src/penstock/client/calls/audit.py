"""Who did what: remembered, and read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.facts import AuditEntry
from penstock.client.values import many, one, to_json
from penstock.postgres.call import Call, Repeat

if TYPE_CHECKING:
    from collections.abc import Mapping


def record_action(
    actor: str, action: str, target: str | None, detail: Mapping[str, Any] | None
) -> Call[int]:
    """In the transaction of the action, so that neither is without the other."""
    return Call(
        "select penstock.record_action(%s, %s, %s, %s::text::jsonb)",
        (actor, action, target, None if detail is None else to_json(dict(detail))),
        one(int),
        repeat=Repeat.BEFORE_SENDING,
    )


def list_actions(before: int | None = None, limit: int = 100) -> Call[list[AuditEntry]]:
    return Call(
        "select id, at, actor, role, action, target, detail "
        "from penstock.list_actions(%s::bigint, %s::int)",
        (before, limit),
        many(lambda row: AuditEntry(*row)),
    )
