"""The call that remembers who did what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client.calls.call import Call, Repeat, to_json
from penstock.client.rows import nothing

if TYPE_CHECKING:
    from collections.abc import Mapping


def record_action(
    actor: str, action: str, target: str | None, detail: Mapping[str, Any]
) -> Call[None]:
    """In the transaction of the deed, so that neither is without the other."""
    return Call(
        "select penstock.record_action(%s, %s, %s, %s::text::jsonb)",
        (actor, action, target, to_json(dict(detail))),
        nothing,
        repeat=Repeat.BEFORE_SENDING,
    )
