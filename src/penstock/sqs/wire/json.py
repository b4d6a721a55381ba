"""AWS JSON 1.0: the action in a header, the request in the body."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from penstock.sqs import errors, limits
from penstock.sqs.errors import Fault
from penstock.sqs.model import ACTIONS, FAULTS
from penstock.sqs.wire.types import type_of

CONTENT_TYPE = b"application/x-amz-json-1.0"
TARGET_PREFIX = "AmazonSQS."

_encoder = msgspec.json.Encoder()


@cache
def _decoder(action: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_of(ACTIONS[action].input))


def action_of(target: str) -> str:
    """The action that `X-Amz-Target` names."""
    name = target.removeprefix(TARGET_PREFIX)
    if name == target or name not in ACTIONS:
        raise Fault("UnknownOperationException", "InvalidAction", 400, "")
    return name


def read(action: str, body: bytes) -> Any:
    """The request as a struct of the action's input shape."""
    limits.check_depth(body)
    try:
        return _decoder(action).decode(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        # What msgspec says names the place and the types, never a value.
        raise errors.malformed(_reason(problem)) from None


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
