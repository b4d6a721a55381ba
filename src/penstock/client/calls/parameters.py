"""The parameters of calls: named arguments, JSON text, seconds."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, TypeVar

from penstock.client.values import duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from penstock.models import Json

T = TypeVar("T")
Option = tuple[str, object]


def given(*options: Option) -> tuple[str, tuple[object, ...]]:
    """The named arguments that have a value, ready to follow the positional ones."""
    present = [(text, value) for text, value in options if value is not None]
    return "".join(f", {text}" for text, _ in present), tuple(value for _, value in present)


def to_json(value: Json) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def whole_seconds(name: str, span: timedelta | None) -> int | None:
    # Rounded up: a claim or a delay may last a little longer, never shorter than was asked for.
    seconds = exact_seconds(name, span)
    return None if seconds is None else math.ceil(seconds)


def exact_seconds(name: str, span: timedelta | None) -> float | None:
    span = duration(name, span)
    return None if span is None else span.total_seconds()


def listed(values: Sequence[T] | None) -> list[T] | None:
    return None if values is None else list(values)
