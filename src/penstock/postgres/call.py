"""A call of the database as a plain value: what to send, and how to read the answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from psycopg.rows import tuple_row

from penstock.errors import EngineError, InvalidArgument, PenstockError, translated

if TYPE_CHECKING:
    from psycopg import Connection

# A parameter of a call: the name of its argument, where it is named, and the type it is cast to.
_PARAMETER = re.compile(r"(?:(\w+) => )?%s(?:::(\w+(?:\[\])?))?")
_LONGEST_SHOWN = 60
# A value that can't be cast, a cast or a function that does not exist for its type.
_TYPE_REFUSALS = ("22", "42804", "42846", "42883")

T = TypeVar("T")
Row = tuple[Any, ...]
Reader = Callable[[Sequence[Row]], T]


_WHOLE: tuple[tuple[type, ...], str] = ((int,), "a whole number")
_TEXT: tuple[tuple[type, ...], str] = ((str, datetime, timedelta, list), "a text")
_FITTING = {"int": _WHOLE, "bigint": _WHOLE}


class Repeat(Enum):
    """May a call be sent again when the connection broke and the call may have arrived?"""

    ALWAYS = "always"
    """Twice is as good as once."""
    BEFORE_SENDING = "before sending"
    """Only while it can't have reached the server."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """What to send, and how to read the answer."""

    sql: str
    parameters: tuple[object, ...]
    read: Reader[T]
    repeat: Repeat = Repeat.ALWAYS
    lasting: bool = False
    """Its time grows with the data, so the usual limit would only undo it."""
    again: Call[T] | None = None
    """What to send instead after a sending without an answer, where the plain repetition would
    misread what the first one did."""
    recognised_for: timedelta | None = None
    """How long after the first sending the engine recognises a repetition: a dedupe key's window;
    None: always."""
    busy: T | None = None
    """The answer of a claim that did not get the claim lock, as a notice tells; None: no claim."""


def misfit(call: Call[Any]) -> str | None:
    """What is wrong with the type of a parameter, in words for the caller; None: nothing.

    Asked only when the database has refused a call, so that a call that fits costs nothing.
    """
    for (name, cast), value in zip(_PARAMETER.findall(call.sql), call.parameters, strict=False):
        each, wanted = _FITTING.get(cast.removesuffix("[]"), _TEXT)
        values = value if cast.endswith("[]") and isinstance(value, list) else [value]
        for one in values:
            if one is not None and not (isinstance(one, each) and type(one) is not bool):
                shown = repr(one)
                shown = shown if len(shown) <= _LONGEST_SHOWN else f"a {type(one).__qualname__}"
                return f"{name or 'an argument'} is {shown}: give {wanted}"
    return None


def explained(error: PenstockError, call: Call[Any]) -> PenstockError:
    """The error of a refused call; if a parameter has the wrong type, one that says so."""
    if isinstance(error, EngineError) and (error.code or "22").startswith(_TYPE_REFUSALS):
        words = misfit(call)
        return error if words is None else InvalidArgument(words)
    return error


def run(connection: Connection[Any], call: Call[T]) -> T:
    """Send the call on a blocking connection; the driver's errors become Penstock's."""
    try:
        with translated(), connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(call.sql, call.parameters)
            return call.read(cursor.fetchall())
    except EngineError as error:
        raise explained(error, call) from error.__cause__
