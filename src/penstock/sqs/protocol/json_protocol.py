"""AWS JSON 1.0: the action in a header, the request in the body.

msgspec reads, checks and writes a request in one call each.  Its types are made from the shapes of
the model: unknown members are skipped, as SQS does; null is the same as absent; an empty list
stays, because SQS has an error for it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, assert_never

import msgspec

from penstock.sqs.protocol import faults
from penstock.sqs.protocol.faults import Fault
from penstock.sqs.protocol.sqs_model import ACTIONS, FAULTS, SHAPES
from penstock.sqs.protocol.wire_shapes import Blob, ListOf, MapOf, Structure, Text, Truth, Whole

CONTENT_TYPE = b"application/x-amz-json-1.0"
TARGET_PREFIX = "AmazonSQS."
# SQS's own requests nest five deep.
DEEPEST = 32

# A string, to its end or to the body's: one without an end must not be looked for again from each
# of its quotes.  Or a bracket.
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{\]}]', re.DOTALL)
_encoder = msgspec.json.Encoder()


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


@cache
def _decoder(action: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_of(ACTIONS[action].input))


def action_of(target: str) -> str:
    """The action that `X-Amz-Target` names."""
    name = target.removeprefix(TARGET_PREFIX)
    if name == target or name not in ACTIONS:
        raise Fault("UnknownOperationException", "InvalidAction", 400, "")
    return name


def check_depth(body: bytes) -> None:
    """Refuse JSON that nests too deep for any request of SQS."""
    # Brackets inside strings count here, so a message that is JSON itself takes the long way.
    if body.count(b"[") + body.count(b"{") <= DEEPEST:
        return
    depth = 0
    # One by one: lists of them would be larger than the body.
    for found in _TOKENS.finditer(body):
        token = found[0]
        if token in b"[{":
            depth += 1
        elif token in b"]}":
            depth -= 1
        if depth > DEEPEST:
            raise faults.malformed("The request nests too deep.")


def read(action: str, body: bytes) -> Any:
    """The request as a struct of the action's input shape."""
    check_depth(body)
    try:
        return _decoder(action).decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        # What msgspec says names the place and the types, never a value.
        raise faults.malformed(_reason(problem)) from None


def write_fault(fault: Fault) -> bytes:
    """The body of a refusal."""
    space = "com.amazonaws.sqs" if fault.shape in FAULTS else "com.amazon.coral.service"
    return _encoder.encode({"__type": f"{space}#{fault.shape}", "message": fault.message})


def text_of(request: Any) -> bytes:
    """A request as the JSON that the database takes."""
    return _encoder.encode(request)


def _reason(problem: Exception) -> str:
    if isinstance(problem, msgspec.ValidationError):
        return str(problem)
    return "The body is not valid JSON."
