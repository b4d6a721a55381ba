"""What a payload becomes."""

from __future__ import annotations

import json
from typing import Any

from penstock.tasks.errors import InvalidTask


def encoded(payload: bytes | str | dict[str, Any] | list[Any] | None) -> bytes:
    """A payload as bytes."""
    match payload:
        case None:
            return b""
        case bytes():
            return payload
        case str():
            return _bytes(payload)
        case _:
            return _bytes(_written(payload))


def _written(payload: Any) -> str:
    try:
        return json.dumps(payload, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidTask(f"the payload can't be written as JSON: {problem}") from None


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidTask("the payload holds half a surrogate pair, which is no text") from None
