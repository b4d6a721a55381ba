"""What callers may write, brought into the one form that calls take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from penstock.errors import InvalidArgument

T = TypeVar("T")


def each(value: T | Sequence[T] | None) -> list[T] | None:
    """One value becomes a list of one, which the engine takes for every message."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        return [value]
    return list(value)


def refuse(
    name: str, value: object, other: str, other_value: object, reason: str = "choose one of them"
) -> None:
    """Raise if both options were given."""
    if value is not None and other_value is not None:
        raise InvalidArgument(f"{name}= and {other}= can't go together: {reason}")
