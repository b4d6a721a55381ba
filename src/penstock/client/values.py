"""Values on their way: what callers may write, the parameters of calls, the answers' rows.

A row is read by position: calls name their columns, so a new column of the engine changes nothing.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from enum import StrEnum

    from penstock.models import Json
    from penstock.postgres.call import Reader, Row

T = TypeVar("T")
E = TypeVar("E", bound="StrEnum")
Option = tuple[str, object]

# A dead letter's error is read by a person, so a page of it is enough.
LONGEST_ERROR = 2000

CLAIM_FOR = timedelta(seconds=30)
"""How long a claim lasts unless the caller says otherwise."""


def new_token() -> str:
    """A unique token for one claim, which no other client can guess."""
    return uuid.uuid4().hex


def claim_token(consumer: str, number: int) -> str:
    """The token of one claim of a consumer; `list_consumers()` knows the consumer by it."""
    return f"{consumer}#{number}"


def each(value: T | Sequence[T] | None) -> list[T] | None:
    """One value becomes a list of one, which the engine takes for every message."""
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence):
        return [value]
    return list(value)


def payload_list(payloads: Iterable[Any]) -> list[Any]:
    """The payloads of many messages; a single one, taken for many, is refused."""
    if isinstance(payloads, str | bytes | dict):
        raise InvalidArgument(
            f"the payloads are a {type(payloads).__name__}: give a list of them, or publish() one"
        )
    return list(payloads)


def refuse(
    name: str, value: object, other: str, other_value: object, reason: str = "choose one of them"
) -> None:
    """Raise if both options were given."""
    if value is not None and other_value is not None:
        raise InvalidArgument(f"{name}= and {other}= can't go together: {reason}")


def duration(name: str, value: timedelta | None) -> timedelta | None:
    """The duration itself; a bare number is refused, because it has no unit."""
    if value is not None and not isinstance(value, timedelta):
        raise InvalidArgument(
            f"{name} is {value!r}: give a timedelta, such as timedelta(seconds=3)"
        )
    return value


def moment(name: str, value: datetime | None) -> datetime | None:
    """The moment itself; without a time zone it would be another one on every server."""
    given: object = value
    if given is not None and (not isinstance(given, datetime) or given.tzinfo is None):
        raise InvalidArgument(
            f"{name} is {value!r}: give a datetime with a time zone, such as datetime.now(UTC)"
        )
    return value


def text(name: str, value: str | None) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} is {value!r}: give a text, such as str(…)")
    return value


def whole(name: str, value: int | None) -> int | None:
    """The number itself; PostgreSQL would round a float, and take True for 1."""
    given: object = value
    if given is not None and (not isinstance(given, int) or isinstance(given, bool)):
        raise InvalidArgument(f"{name} is {value!r}: give a whole number")
    return value


def choice(name: str, kind: type[E], value: E | str | None) -> str | None:
    """One of a closed set, by its word."""
    if value is None:
        return None
    try:
        return kind(value).value
    except ValueError:
        words = ", ".join(repr(member.value) for member in kind)
        raise InvalidArgument(f"{name} is {value!r}: choose one of {words}") from None


def reason(error: str | BaseException | None) -> str | None:
    """Why a message failed, as a dead letter shows it."""
    if error is None:
        return None
    return described(error) if isinstance(error, BaseException) else storable(str(error))


def described(problem: BaseException) -> str:
    """Type and message of an error."""
    kind = type(problem).__qualname__
    try:
        told = str(problem)
    except Exception:  # noqa: BLE001 - an error that can't even be printed is still an error
        told = ""
    return storable(f"{kind}: {told}" if told else kind)


def storable(written: str) -> str:
    """Text that PostgreSQL takes: it has no U+0000, and half a surrogate pair can't be sent."""
    clean = written.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= LONGEST_ERROR else clean[: LONGEST_ERROR - 1] + "…"


# The parameters of calls


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


# Reading rows


def nothing(_rows: Sequence[Row]) -> None:
    """The answer of a function that returns void."""


def one(read: Callable[[Any], T]) -> Reader[T]:
    """The single value of the single row."""

    def reader(rows: Sequence[Row]) -> T:
        return read(rows[0][0])

    return reader


def optional(read: Callable[[Any], T]) -> Reader[T | None]:
    """The single value of the single row, where null means "no such thing"."""

    def reader(rows: Sequence[Row]) -> T | None:
        value = rows[0][0] if rows else None
        return None if value is None else read(value)

    return reader


def column(read: Callable[[Any], T]) -> Reader[list[T]]:
    """The first value of every row."""

    def reader(rows: Sequence[Row]) -> list[T]:
        return [read(row[0]) for row in rows]

    return reader


def single(read: Callable[[Row], T]) -> Reader[T]:
    """The one row there is."""

    def reader(rows: Sequence[Row]) -> T:
        return read(rows[0])

    return reader


def maybe(read: Callable[[Row], T]) -> Reader[T | None]:
    """The one row, if there is one."""

    def reader(rows: Sequence[Row]) -> T | None:
        return read(rows[0]) if rows else None

    return reader


def many(read: Callable[[Row], T]) -> Reader[list[T]]:
    """Every row."""

    def reader(rows: Sequence[Row]) -> list[T]:
        return [read(row) for row in rows]

    return reader


def same(value: Any) -> Any:
    return value
