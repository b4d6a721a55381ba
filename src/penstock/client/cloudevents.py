"""CloudEvents 1.0, in and out.

Structured: the whole event is the payload.  Binary: the event's data is the payload, its attributes
are headers named `ce-…`, as in the HTTP binding.

    await mq.publish("orders", **cloudevents.write(event))
    event = cloudevents.read(message)

An event may be this module's `CloudEvent`, a dict in CloudEvents' JSON format, or an object of the
`cloudevents` package.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, assert_never

from penstock.errors import PayloadInvalid

if TYPE_CHECKING:
    from penstock.models import Json

SPECVERSION = "1.0"
STRUCTURED_TYPE = "application/cloudevents+json"
_PREFIX = "ce-"
_REQUIRED = ("id", "source", "type", "specversion")
_OPTIONAL = ("subject", "time", "datacontenttype", "dataschema")
_DATA = ("data", "data_base64")
# What the specification's naming rule allows.
_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**31), 2**31 - 1

Extension = str | int | bool


class Mode(StrEnum):
    """How an event travels."""

    STRUCTURED = "structured"
    BINARY = "binary"


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """One event; making an invalid one raises PayloadInvalid."""

    id: str
    source: str
    type: str
    data: Json | bytes = None
    subject: str | None = None
    time: datetime | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: Mapping[str, Extension] = field(default_factory=dict)
    specversion: str = SPECVERSION

    def __post_init__(self) -> None:
        if self.specversion != SPECVERSION:
            raise _invalid("specversion", f"is {self.specversion!r}, and only 1.0 is understood")
        for name in (*_REQUIRED, "subject", "datacontenttype", "dataschema"):
            _check_text(name, getattr(self, name), required=name in _REQUIRED)
        if self.time is not None and self.time.utcoffset() is None:
            raise _invalid("time", "must name its offset from UTC")
        for name, value in self.extensions.items():
            _check_extension(name, value)

    def attributes(self) -> dict[str, str | Extension]:
        """Everything but the data, in the forms of CloudEvents' JSON format."""
        settled = {name: getattr(self, name) for name in (*_REQUIRED, *_OPTIONAL)}
        given = {name: value for name, value in settled.items() if value is not None}
        if self.time is not None:
            given["time"] = self.time.isoformat().replace("+00:00", "Z")
        return {**given, **self.extensions}

    def to_dict(self) -> dict[str, Json]:
        """The event in CloudEvents' JSON format."""
        if isinstance(self.data, bytes):
            return {**self.attributes(), "data_base64": base64.b64encode(self.data).decode()}
        return {**self.attributes(), **({} if self.data is None else {"data": self.data})}


class Publishable(TypedDict):
    """The arguments of `publish` that an event becomes."""

    payload: Json
    headers: dict[str, str]


class Received(Protocol):
    """What `read` needs of a message."""

    @property
    def payload(self) -> Any: ...
    @property
    def headers(self) -> Mapping[str, Any] | None: ...


def write(event: Any, mode: Mode | str = Mode.STRUCTURED) -> Publishable:
    """What to publish for an event: `await mq.publish("orders", **write(event))`."""
    found = parse(event)
    match Mode(mode):
        case Mode.STRUCTURED:
            return {"payload": found.to_dict(), "headers": {"content-type": STRUCTURED_TYPE}}
        case Mode.BINARY:
            return _binary(found)
        case other:
            assert_never(other)


def read(message: Received) -> CloudEvent:
    """The event that a message carries, in either mode; PayloadInvalid when it carries none."""
    headers = {name.lower(): value for name, value in (message.headers or {}).items()}
    if str(headers.get("content-type", "")).startswith("application/cloudevents"):
        return parse(message.payload)
    if f"{_PREFIX}specversion" in headers:
        return _from_binary(headers, message.payload)
    # Other systems publish structured events and set no header: the payload tells.
    if isinstance(message.payload, Mapping) and "specversion" in message.payload:
        return parse(message.payload)
    raise PayloadInvalid("the message is no CloudEvent: it has no specversion")


def parse(event: Any) -> CloudEvent:
    """An event from a dict in CloudEvents' JSON format, or from the `cloudevents` package."""
    if isinstance(event, CloudEvent):
        return event
    attributes, data = _of_package(event)
    if attributes is not None:
        return _build(attributes, data)
    if not isinstance(event, Mapping):
        raise PayloadInvalid("a CloudEvent is a dict, a CloudEvent, or one of package cloudevents")
    return _build(event, _data(event))


def to_package(event: Any) -> Any:
    """The event as an object of the `cloudevents` package, which must be installed."""
    from cloudevents.core.v1.event import CloudEvent as Theirs  # noqa: PLC0415  an extra

    found = parse(event)
    attributes: dict[str, Any] = {**found.attributes()}
    if found.time is not None:
        attributes["time"] = found.time
    return Theirs(attributes, found.data)


def _of_package(event: Any) -> tuple[Mapping[str, Any] | None, Any]:
    """Both generations of the package, told by what they can do, so that it need not be there."""
    for prefix in ("", "_"):
        attributes = getattr(event, f"{prefix}get_attributes", None)
        data = getattr(event, f"{prefix}get_data", None)
        if callable(attributes) and callable(data):
            return attributes(), data()
    return None, None


def _build(found: Mapping[str, Any], data: Any) -> CloudEvent:
    known = {name: found[name] for name in (*_REQUIRED, *_OPTIONAL) if found.get(name) is not None}
    for name in _REQUIRED:
        if name not in known:
            raise _invalid(name, "is missing")
    extensions = {
        name: value
        for name, value in found.items()
        if name not in (*_REQUIRED, *_OPTIONAL, *_DATA) and value is not None
    }
    known["time"] = _moment(known.get("time"))
    return CloudEvent(**known, data=data, extensions=extensions)


def _data(event: Mapping[str, Any]) -> Any:
    if "data_base64" not in event:
        return event.get("data")
    if "data" in event:
        raise _invalid("data", "and data_base64 are both there: one of them is the event's data")
    try:
        return base64.b64decode(event["data_base64"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise _invalid("data_base64", "is no base64") from None


def _binary(event: CloudEvent) -> Publishable:
    if isinstance(event.data, bytes):
        raise PayloadInvalid("the event's data are bytes, which travel in structured mode only")
    attributes = event.attributes()
    content_type = attributes.pop("datacontenttype", "application/json")
    headers = {_PREFIX + name: _header(value) for name, value in attributes.items()}
    return {"payload": event.data, "headers": {"content-type": str(content_type), **headers}}


def _from_binary(headers: Mapping[str, Any], payload: Json) -> CloudEvent:
    found = {
        name.removeprefix(_PREFIX): value
        for name, value in headers.items()
        if name.startswith(_PREFIX)
    }
    return _build({**found, "datacontenttype": headers.get("content-type")}, payload)


def _header(value: str | Extension) -> str:
    # A header is text; CloudEvents writes its booleans as JSON does.
    return str(value).lower() if isinstance(value, bool) else str(value)


def _moment(value: Any) -> datetime | None:
    if value is None or isinstance(value, datetime):
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise _invalid("time", "is no RFC 3339 time such as 2026-03-01T12:30:00Z") from None


def _check_text(name: str, value: Any, *, required: bool) -> None:
    if value is None and not required:
        return
    if not isinstance(value, str) or not value:
        raise _invalid(name, "must be a text that is not empty")


def _check_extension(name: str, value: Any) -> None:
    if not _ATTRIBUTE_NAME.fullmatch(name):
        raise _invalid(name, "is no attribute's name: only lower-case letters and digits are")
    if isinstance(value, int) and _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
        return
    if not isinstance(value, str):
        raise _invalid(name, "must be a text, a boolean or a whole number of 32 bits")


def _invalid(name: str, problem: str) -> PayloadInvalid:
    return PayloadInvalid(f"this is no CloudEvent 1.0: {name} {problem}")
