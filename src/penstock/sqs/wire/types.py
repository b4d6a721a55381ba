"""The table's shapes as msgspec types: reading, checking and writing a request is one call each.

Unknown members are skipped, as SQS does; null is as good as absent; an empty list stays, because it
is an error of its own.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, assert_never

import msgspec

from penstock.sqs.model import SHAPES
from penstock.sqs.shapes import Blob, ListOf, MapOf, Structure, Text, Truth, Whole


@cache
def type_of(name: str) -> Any:  # noqa: PLR0911 - one answer a case
    """The type that reads a shape."""
    match SHAPES[name]:
        case Text():
            return str
        case Blob():
            return bytes
        case Truth():
            return bool
        case Whole(bits):
            return Annotated[int, msgspec.Meta(ge=-(2 ** (bits - 1)), le=2 ** (bits - 1) - 1)]
        case ListOf(item, _):
            return list[type_of(item)]  # type: ignore[misc]
        case MapOf(_, value, _, _):
            return dict[str, type_of(value)]  # type: ignore[misc]
        case Structure(members):
            fields = [
                (each, type_of(member.shape) | None, None) for each, member in members.items()
            ]
            return msgspec.defstruct(name, fields, omit_defaults=True)
        case other:
            assert_never(other)
