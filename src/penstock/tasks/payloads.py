"""What a payload becomes."""

from __future__ import annotations

import json
from typing import Any


def encoded(payload: bytes | str | dict[str, Any] | list[Any] | None) -> bytes:
    """A payload as bytes."""
    match payload:
        case None:
            return b""
        case bytes():
            return payload
        case str():
            return payload.encode()
        case _:
            return json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()
