"""Payloads: what can be published, and what a typed consumer gets."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidSetting, PayloadInvalid
from penstock.payloads import codec_for, decode_deep, encode, loads

NUMBER = UUID("6f1c0b1e-6a5d-4f0e-9d4b-0d5a6b7c8d9e")
MOMENT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    LARGE = "large"


class Level(IntEnum):
    HIGH = 3


@dataclass(frozen=True)
class Line:
    article: str
    price: Decimal


@dataclass(frozen=True)
class Order:
    id: UUID
    placed_at: datetime
    lines: list[Line]
    colour: Colour = Colour.RED
    tags: frozenset[str] = frozenset()
    window: timedelta | None = None
    per_day: dict[int, int] = field(default_factory=dict)


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    name: str
    born_on: date = pydantic.Field(alias="bornOn")


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


@dataclass(frozen=True)
class Visit:
    customer: Customer
    animals: list[Cat]


class Parcel(msgspec.Struct, frozen=True):
    weight: float
    to: str


class Point(NamedTuple):
    x: int
    y: int


class Shape(TypedDict):
    name: str
    corners: list[Point]


ORDER = Order(
    NUMBER,
    MOMENT,
    [Line("bolt", Decimal("0.10"))],
    Colour.RED,
    frozenset({"rush"}),
    timedelta(hours=2),
    {1: 5},
)
CUSTOMER = Customer(name="Ada", bornOn=date(1990, 5, 6))


@pytest.mark.parametrize(
    "payload",
    [None, True, 7, -(2**70), 1.5, "text", "Zürich 🚚", [], {}, {"a": [1, {"b": None}]}],
)
def test_plain_json_comes_back_as_it_was(payload: Any) -> None:
    assert codec_for().decode(json.loads(encode(payload))) == payload


@pytest.mark.parametrize(
    ("payload", "payload_type"),
    [
        (ORDER, Order),
        ([ORDER, ORDER], list[Order]),
        (CUSTOMER, Customer),
        ([CUSTOMER], list[Customer]),
        (Visit(CUSTOMER, [Cat(kind="cat")]), Visit),
        (Dog(kind="dog"), Cat | Dog),
        (Dog(kind="dog"), Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]),
        (Parcel(1.5, "Bern"), Parcel),
        ({"name": "line", "corners": [Point(0, 0), Point(3, 4)]}, Shape),
        (MOMENT, datetime),
        (Level.HIGH, Level),
    ],
    ids=str,
)
def test_typed_payloads_come_back_equal(payload: Any, payload_type: Any) -> None:
    assert codec_for(payload_type).decode(json.loads(encode(payload))) == payload


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (MOMENT, '"2026-03-01T12:30:00Z"'),
        (date(2026, 3, 1), '"2026-03-01"'),
        (NUMBER, f'"{NUMBER}"'),
        (Decimal("1.10"), '"1.10"'),
        (Colour.RED, '"red"'),
        (Size.LARGE, '"large"'),
        (Level.HIGH, "3"),
        (Point(1, 2), "[1,2]"),
        (CUSTOMER, '{"name":"Ada","bornOn":"1990-05-06"}'),
    ],
)
def test_the_json_of_a_value_is_settled(value: Any, text: str) -> None:
    assert encode(value) == text
    assert encode({"in": [value]}) == f'{{"in":[{text}]}}'


@pytest.mark.parametrize(
    "value", [b"\x00", bytearray(b"x"), [b"x"], {"deep": Parcel(1.0, b"x")}], ids=repr
)
def test_bytes_are_refused_and_told_what_to_do(value: Any) -> None:
    with pytest.raises(PayloadInvalid, match=r"holds bytes.*base64"):
        encode(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_refused_with_their_place(number: float) -> None:
    with pytest.raises(PayloadInvalid, match=r"infinity at \$\.orders\[1\]\.weight"):
        encode({"orders": [1, Parcel(number, "Bern")]})


def test_a_pydantic_model_with_nan_is_refused_or_follows_its_own_setting() -> None:
    class Reading(pydantic.BaseModel):
        value: float

    with pytest.raises(PayloadInvalid, match=r"infinity at \$\.value"):
        encode(Reading(value=math.nan))


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "z\udfff"])
def test_text_that_postgres_cannot_store_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(PayloadInvalid, match=r"a text at \$\.note.*remove it"):
        encode({"note": text})
    with pytest.raises(PayloadInvalid, match=r"a key of \$"):
        encode({text: 1})


def test_a_backslash_before_u0000_is_only_text() -> None:
    assert json.loads(encode({"note": "\\u0000"})) == {"note": "\\u0000"}


def test_what_has_no_form_in_json_is_named() -> None:
    with pytest.raises(PayloadInvalid, match="holds a Unknown, which has no form in JSON"):
        encode({"x": type("Unknown", (), {})()})
    with pytest.raises(PayloadInvalid, match="can't be written as JSON"):
        encode({(1, 2): "a key that is no text"})


def test_a_payload_that_holds_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(PayloadInvalid, match="holds itself"):
        encode(ring)


def test_a_payload_nested_without_end_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(PayloadInvalid, match="too deeply"):
        encode(deep)


@pytest.mark.parametrize(
    ("payload_type", "value", "problem"),
    [
        (Parcel, {"weight": "secret", "to": "Bern"}, r"no Parcel: .*`float`.*\$\.weight"),
        (Parcel, {"weight": 1}, "missing required field `to`"),
        (list[Parcel], [{"weight": 1, "to": 7}], r"\$\[0\]\.to"),
        (Customer, {"name": 7, "bornOn": "secret"}, r"no Customer: .*\$\.name.*\$\.bornOn"),
        (Visit, {"customer": {"name": "secret"}, "animals": []}, "no Visit|no Customer"),
    ],
)
def test_a_misfit_names_field_and_problem_and_no_values(
    payload_type: Any, value: Any, problem: str
) -> None:
    with pytest.raises(PayloadInvalid, match=problem) as caught:
        codec_for(payload_type).decode(value)
    assert "secret" not in str(caught.value)


def test_many_misfits_make_a_short_text() -> None:
    with pytest.raises(PayloadInvalid, match="and 97 more") as caught:
        codec_for(list[Cat]).decode([{"kind": "x" * 10_000}] * 100)
    assert len(str(caught.value)) <= 500


class Bare:
    """A class whose fields nobody declared."""


@pytest.mark.parametrize("payload_type", [Bare, Bare | Parcel | datetime, lambda: 1])
def test_a_type_that_cannot_be_read_is_refused_at_once(payload_type: Any) -> None:
    with pytest.raises(InvalidSetting, match="can't be used"):
        codec_for(payload_type)


def test_pydantic_is_imported_only_where_it_is_used() -> None:
    program = (
        "import sys; from dataclasses import make_dataclass\n"
        "from penstock.payloads import codec_for, encode\n"
        "Order = make_dataclass('Order', [('id', int)])\n"
        "assert codec_for(Order).decode({'id': 7}) == Order(7)\n"
        "assert encode(Order(7)) == '{\"id\":7}'\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_number_that_python_does_not_read_is_too_large_for_it_and_no_more() -> None:
    assert loads(f'{{"a": 1{"0" * 5000}, "b": 1e400}}') == {"a": float("inf"), "b": float("inf")}


@pytest.mark.parametrize("text", ['[[{"a": %s}]]', '{"b": 1, "a": [%s, "]", {}]}', "[%s, []]"])
def test_json_deeper_than_python_reads_is_read(text: str) -> None:
    found = loads((text % ("[" * 5000 + '7, "\\u00fc\\""' + "]" * 5000)).encode())
    depth = 0
    while found != [7, 'ü"']:
        (found,) = [each for each in _children(found) if _children(each) or each == [7, 'ü"']]
        depth += 1
    assert depth >= 5000


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if type(value) is list else []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=20,
    )
)
def test_deep_json_is_read_as_any_other(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert decode_deep(text) == json.loads(text)


def test_the_deepest_that_can_be_written_is_written_or_refused() -> None:
    for depth in range(900, 1010):
        deep: list[Any] = ["ü"]
        for _ in range(depth):
            deep = [deep]
        with suppress(PayloadInvalid):
            encode(deep)


@pytest.mark.parametrize("text", ['{"a": [1, 2.5, null, "é"]}', "12345678901234567890123", "1e400"])
def test_json_of_the_database_is_read_as_python_reads_it(text: str) -> None:
    assert loads(text.encode()) == json.loads(text)
