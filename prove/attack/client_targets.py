"""The parsers of the Python door and of tasks: payloads, their types, CloudEvents, tasks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

from pydantic import BaseModel

from penstock import payloads
from penstock.client import cloudevents
from penstock.errors import PayloadInvalid
from penstock.tasks.errors import InvalidTask
from penstock.tasks.task import NewTask, encoded
from prove.attack.targets import Target, text_of


@dataclass
class Line:
    sku: str
    count: int = 1


@dataclass
class Order:
    """A payload's type, with most of what types have."""

    number: int
    lines: list[Line]
    paid: bool = False
    rate: float | None = None
    tags: dict[str, str] | None = None


class Person(BaseModel):
    name: str
    age: int | None = None
    friends: list[Person] = []


class Point(NamedTuple):
    x: float
    y: float


class Place(TypedDict, total=False):
    name: str
    at: Point


@dataclass(frozen=True, slots=True)
class Received:
    """What a message shows of itself to `cloudevents.read`."""

    payload: Any
    headers: dict[str, Any] | None


_CODECS = [payloads.codec_for(kind) for kind in (Order, Person, Point, Place, int, list[Order])]


def value_of(data: bytes) -> Any:
    """The JSON value that the bytes are; else their text."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return text_of(data)


def _stored(data: bytes) -> object:
    """Into the database and back."""
    return payloads.loads(payloads.encode(value_of(data)))


def _from_database(data: bytes) -> object:
    """What PostgreSQL hands out: JSON always, though of any size and depth that jsonb holds."""
    text = data.decode("utf-8", "ignore")
    return payloads.loads(text) if _is_jsonb(text) else None


def _is_jsonb(text: str) -> bool:
    """Whether PostgreSQL could have sent it: as strict as its parser, without Python's limits."""
    try:
        json.loads(text, parse_constant=_refuse, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(name: str) -> None:
    raise ValueError(name)


def _typed(data: bytes) -> object:
    text = data[1:].decode("utf-8", "replace")
    if not data or "\\ud" in text.lower():
        # What comes from the database is text, without halves of surrogate pairs.
        return None
    return _CODECS[data[0] % len(_CODECS)].decode(value_of(text.encode()))


def _event_in(data: bytes) -> object:
    value = value_of(data)
    if isinstance(value, dict) and set(value) <= {"headers", "payload"}:
        headers = value.get("headers")
        return cloudevents.read(
            Received(value.get("payload"), headers if isinstance(headers, dict) else None)
        )
    return cloudevents.read(Received(value, {"content-type": cloudevents.STRUCTURED_TYPE}))


def _event_out(data: bytes) -> object:
    value = value_of(data[1:])
    mode = cloudevents.Mode.BINARY if data[:1] > b"\x7f" else cloudevents.Mode.STRUCTURED
    found = cloudevents.write(value, mode)
    return payloads.encode(found["payload"]), payloads.encode(found["headers"])


_FIELDS = ("topic", "tenant_id", "dedupe_key", "id")


def _task(data: bytes) -> object:
    value = value_of(data)
    if not isinstance(value, dict):
        return encoded(value)
    given = {name: value[name] for name in _FIELDS if isinstance(value.get(name), str)}
    meta = value.get("meta")
    task = NewTask(
        payload=encoded(value.get("payload")),
        meta=meta if isinstance(meta, dict) else None,
        **{"topic": "t", **given},
    )
    # As every driver sends them.
    return [text.encode() for text in (task.topic, task.tenant_id, task.meta_text() or "")]


_EVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "order.made",
    "time": "2026-03-01T12:30:00Z",
    "datacontenttype": "application/json",
    "region": "eu",
    "count": 7,
    "data": {"order": 7},
}
_BINARY = {
    "headers": {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"},
    "payload": {"order": 7},
}
_ORDER = {"number": 7, "lines": [{"sku": "a", "count": 2}], "rate": 1.5, "tags": {"a": "b"}}
_ENCODED = {"text": "grüße", "nul": "a\\u0000b", "list": [1, 2.5, None, True], "deep": {"x": {}}}
_TASK = {"topic": "mail", "tenant_id": "acme", "payload": {"to": "ada"}, "meta": {"a": ["ü"]}}


def _json(*values: Any) -> tuple[bytes, ...]:
    return tuple(json.dumps(value).encode() for value in values)


TARGETS = (
    Target("payload", _stored, (PayloadInvalid,), _json(_ENCODED, _ORDER, [["ü"]])),
    Target("payload of the database", _from_database, (), _json(_ENCODED, _ORDER, 10**30)),
    Target(
        "typed payload",
        _typed,
        (PayloadInvalid,),
        tuple(
            bytes([number]) + json.dumps(value).encode()
            for number, value in enumerate(
                (_ORDER, {"name": "a", "friends": [{"name": "b"}]}, [1, 2.5], {"at": [1, 2]}, 7)
            )
        ),
    ),
    Target(
        "cloudevent in",
        _event_in,
        (PayloadInvalid,),
        _json(_EVENT, _BINARY, {**_EVENT, "data_base64": "AAEC"}),
    ),
    Target(
        "cloudevent out",
        _event_out,
        (PayloadInvalid,),
        tuple(head + json.dumps(_EVENT).encode() for head in (b"\x00", b"\xff")),
    ),
    Target("task", _task, (InvalidTask,), _json(_TASK, [1], {**_TASK, "dedupe_key": "k"})),
)
