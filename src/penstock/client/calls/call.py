"""What every call is made of: the value itself, and the words that its parameters need."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.client.values import duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from penstock.client.rows import Reader
    from penstock.models import Json

T = TypeVar("T")
Option = tuple[str, object]


class Repeat(Enum):
    """May a call be sent again when the connection broke and nobody knows whether it arrived?"""

    ALWAYS = "always"
    """Twice is as good as once."""
    BEFORE_SENDING = "before sending"
    """Only while it can't have reached the server."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """What to ask, and how to read the answer."""

    sql: str
    parameters: tuple[object, ...]
    read: Reader[T]
    repeat: Repeat = Repeat.ALWAYS
    lasting: bool = False
    """It takes the longer the more there is: the usual limit would only undo it."""
    again: Call[T] | None = None
    """What to send instead after a sending without an answer, where the plain repetition would
    misread what the first one did."""
    busy: T | None = None
    """The answer of a claim that did not get its turn, as a notice tells; None: no such call."""


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
