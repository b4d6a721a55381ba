"""What a look at the tables finds, in words for the person who can mend it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One point: fine, or what to do about it."""

    name: str
    ok: bool
    detail: str
    advice: str | None = None
