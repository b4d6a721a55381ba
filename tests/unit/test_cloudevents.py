"""CloudEvents 1.0: structured and binary, in and out."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.v1.event import CloudEvent as PackageEvent
from cloudevents.v1.http import CloudEvent as OldPackageEvent

from penstock.client import cloudevents
from penstock.client.cloudevents import CloudEvent, parse, read, write
from penstock.errors import PayloadInvalid
from penstock.payloads import encode

EVENT = CloudEvent(
    id="7",
    source="/shop/tills/3",
    type="shop.order.placed",
    data={"order": 7, "lines": [1, None]},
    subject="order-7",
    time=datetime(2026, 3, 1, 12, 30, 0, 250_000, tzinfo=UTC),
    datacontenttype="application/json",
    dataschema="https://shop.example/order.json",
    extensions={"region": "eu", "sequence": "2"},
)
LEAST = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


@dataclass
class Received:
    """What comes out of the database for what went in."""

    payload: Any
    headers: dict[str, Any] | None


def sent(event: Any, mode: str) -> Received:
    published = write(event, mode)
    return Received(
        json.loads(encode(published["payload"])), json.loads(encode(published["headers"]))
    )


@pytest.mark.parametrize("mode", ["structured", "binary"])
@pytest.mark.parametrize(
    "event", [EVENT, parse(LEAST), replace(EVENT, data="text", datacontenttype="text/plain")]
)
def test_an_event_comes_back_as_it_was(event: CloudEvent, mode: str) -> None:
    came = read(sent(event, mode))
    # Binary mode always says what its data are.
    assert came == replace(event, datacontenttype=came.datacontenttype)
    assert event.datacontenttype in (None, came.datacontenttype)


def test_a_structured_event_is_the_payload() -> None:
    received = sent(EVENT, "structured")
    assert received.headers == {"content-type": "application/cloudevents+json"}
    assert received.payload == {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop/tills/3",
        "type": "shop.order.placed",
        "subject": "order-7",
        "time": "2026-03-01T12:30:00.250000Z",
        "datacontenttype": "application/json",
        "dataschema": "https://shop.example/order.json",
        "region": "eu",
        "sequence": "2",
        "data": {"order": 7, "lines": [1, None]},
    }


def test_a_binary_event_has_its_attributes_in_headers() -> None:
    received = sent(EVENT, "binary")
    assert received.payload == EVENT.data
    assert received.headers is not None
    assert received.headers["ce-type"] == "shop.order.placed"
    assert received.headers["ce-region"] == "eu"
    assert received.headers["content-type"] == "application/json"
    assert "ce-datacontenttype" not in received.headers


def test_numbers_and_booleans_are_texts_in_headers_as_json_writes_them() -> None:
    received = sent({**LEAST, "urgent": True, "sequence": 2}, "binary")
    assert received.headers is not None
    assert (received.headers["ce-urgent"], received.headers["ce-sequence"]) == ("true", "2")


def test_bytes_travel_as_base64_in_structured_mode_only() -> None:
    event = replace(EVENT, data=b"\x00\xff", datacontenttype="image/png")
    received = sent(event, "structured")
    assert received.payload["data_base64"] == "AP8="
    assert read(received) == event
    with pytest.raises(PayloadInvalid, match="structured mode only"):
        write(event, "binary")


def test_a_structured_event_without_a_header_is_recognised() -> None:
    assert read(Received(LEAST, None)) == parse(LEAST)


def test_headers_of_any_case_are_understood() -> None:
    headers = {"CE-SpecVersion": "1.0", "Ce-Id": "1", "ce-Source": "/s", "CE-TYPE": "t"}
    assert read(Received({"x": 1}, headers)).data == {"x": 1}


def test_a_message_that_is_no_event_is_refused() -> None:
    with pytest.raises(PayloadInvalid, match="has no specversion"):
        read(Received({"order": 7}, {"region": "eu"}))


@pytest.mark.parametrize("missing", ["id", "source", "type", "specversion"])
def test_required_attributes_must_be_there(missing: str) -> None:
    with pytest.raises(PayloadInvalid, match=f"{missing} is missing"):
        parse({name: value for name, value in LEAST.items() if name != missing})


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"specversion": "0.3"}, "only 1.0 is understood"),
        ({"id": ""}, "id must be a text"),
        ({"source": 7}, "source must be a text"),
        ({"subject": ""}, "subject must be a text"),
        ({"time": "yesterday"}, "time is no RFC 3339 time"),
        ({"time": "2026-03-01T12:30:00"}, "time must name its offset"),
        ({"Region": "eu"}, "Region is no attribute's name"),
        ({"region": 1.5}, "region must be a text, a boolean"),
        ({"sequence": 2**31}, "sequence must be a text, a boolean"),
        ({"data_base64": "§"}, "data_base64 is no base64"),
        ({"data_base64": "AP8=", "data": 1}, "data and data_base64 are both there"),
    ],
)
def test_an_invalid_event_is_told_what_is_wrong(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(PayloadInvalid, match=problem):
        parse({**LEAST, **more})


def test_what_is_no_event_at_all_is_refused() -> None:
    with pytest.raises(PayloadInvalid, match="a CloudEvent is a dict"):
        write("hello")


def test_an_object_of_the_package_goes_in_and_comes_out() -> None:
    theirs = PackageEvent(
        {"id": "7", "source": "/s", "type": "t", "time": EVENT.time, "region": "eu"}, {"order": 7}
    )
    for mode in ("structured", "binary"):
        came = cloudevents.to_package(read(sent(theirs, mode)))
        assert came.get_data() == theirs.get_data()
        assert came.get_attributes().items() >= theirs.get_attributes().items()


def test_an_object_of_the_package_s_first_generation_is_understood() -> None:
    theirs = OldPackageEvent({"source": "/s", "type": "t", "region": "eu"}, {"order": 7})
    event = read(sent(theirs, "structured"))
    assert (event.id, event.data, event.extensions) == (
        theirs["id"],
        {"order": 7},
        {"region": "eu"},
    )
