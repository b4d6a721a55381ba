"""Payloads: from a value to JSON text, and from JSON back to the type that a handler asked for.

msgspec does the work for dataclasses, attrs classes, TypedDicts, NamedTuples and its own structs:
it is quick, has no dependencies of its own, and names the field that does not fit.  pydantic models
are recognised by what they carry, so pydantic is imported only where it is used.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args

import msgspec

from penstock.errors import InvalidSetting, PayloadInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.models import Json

P = TypeVar("P")

_BINARY = (bytes, bytearray, memoryview)
_LONGEST_PROBLEM = 500
_PROBLEMS_SHOWN = 3
# A bracket, a text, or a number or word.  Commas and colons tell nothing that the order does not.
_TOKEN = re.compile(r'[\[\]{}]|"(?:[^"\\]|\\.)*+"|[^\s\[\]{},:"]+', re.DOTALL)


def encode(value: Any) -> str:
    """The JSON text of a payload; PayloadInvalid when JSON in PostgreSQL can't hold it."""
    try:
        text = _ENCODER.encode(value)
    except RecursionError:
        raise PayloadInvalid("the payload is nested too deeply, or holds itself") from None
    except TypeError as exc:
        # json's own words for a key of a dict that is no text.
        raise PayloadInvalid(f"the payload can't be written as JSON: {exc}") from None
    except ValueError as exc:
        raise PayloadInvalid(_refused(value, str(exc))) from None
    if "\\u0000" in text or not text.isascii():
        try:
            _require_storable(text)
        except RecursionError:
            raise PayloadInvalid("the payload is nested too deeply") from None
    return text


def loads(text: bytes | str) -> Any:
    """JSON of the database as Python values."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # PostgreSQL's numbers are larger than a float, which json calls infinite.
        return json.loads(text, parse_int=_whole)
    except RecursionError:
        return decode_deep(text if isinstance(text, str) else bytes(text).decode(), _whole)


def _whole(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        # Python reads no more than 4,300 digits; such a number must not stop a whole batch.
        return float(digits)


def _plain(value: Any) -> Any:
    """What json does not know, one step nearer to what it knows."""
    if isinstance(value, _BINARY):
        raise PayloadInvalid(
            "the payload holds bytes, and JSON has none: "
            "encode them as text (base64, say), or publish where they are stored"
        )
    if _is_pydantic(type(value)):
        return _pydantic_dump(value)
    try:
        return msgspec.to_builtins(
            value, builtin_types=_BINARY, str_keys=True, enc_hook=_pydantic_dump
        )
    except TypeError:
        raise PayloadInvalid(
            f"the payload holds a {type(value).__qualname__}, which has no form in JSON: "
            "use plain values, a dataclass, a pydantic model or a msgspec struct"
        ) from None


def _pydantic_dump(value: Any) -> Any:
    kind: Any = type(value)
    if not _is_pydantic(kind):
        raise TypeError(kind.__qualname__)
    return _pydantic_adapter(kind).dump_python(value, mode="json", by_alias=True)


_ENCODER = json.JSONEncoder(
    allow_nan=False, separators=(",", ":"), ensure_ascii=False, default=_plain
)


def _refused(value: Any, problem: str) -> str:
    if "Circular" in problem:
        return "the payload holds itself: JSON has no references"
    try:
        text = json.dumps(value, default=_plain)
        where = next(_places(json.loads(text), "$", _is_no_number), None)
    except (ValueError, RecursionError):
        where = None
    if where is None:
        return f"the payload can't be written as JSON: {problem}"
    return f"the payload has NaN or an infinity at {where}, and JSON has no such numbers: use None"


def _require_storable(text: str) -> None:
    where = next(_places(json.loads(text), "$", _is_unstorable), None)
    if where is not None:
        raise PayloadInvalid(
            f"the payload has a text at {where} with the character U+0000 or half of a surrogate "
            "pair, which PostgreSQL can't store: remove it"
        )


def _places(value: Json, path: str, wanted: Callable[[Json], bool]) -> Iterator[str]:
    """Where in a payload such a value stands, as JSON paths."""
    if wanted(value):
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            if wanted(name):
                yield f"a key of {path}"
            yield from _places(inner, f"{path}.{name}", wanted)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _places(inner, f"{path}[{number}]", wanted)


def _is_no_number(value: Json) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _is_unstorable(value: Json) -> bool:
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return False
    return "\0" in value or any("\ud800" <= character <= "\udfff" for character in value)


@dataclass(frozen=True, slots=True)
class Codec(Generic[P]):
    """How the payloads of one type are read."""

    name: str
    read: Callable[[Json], P]

    def decode(self, value: Json) -> P:
        """The payload as its type; PayloadInvalid names the field and the problem, no values."""
        return self.read(value)


def codec_for(payload_type: Any = None) -> Codec[Any]:
    """The codec of a type; without one (or with Any) payloads stay plain JSON."""
    if payload_type is None or payload_type is Any:
        return PLAIN
    try:
        return _cached_codec(payload_type)
    except TypeError as exc:
        raise _unusable(payload_type, str(exc)) from exc
    except NameError as exc:
        raise _unusable(
            payload_type, f"{exc}; its annotations must be readable from its module"
        ) from exc


PLAIN: Codec[Any] = Codec("plain", lambda value: value)


@cache
def _cached_codec(payload_type: Any) -> Codec[Any]:
    if _mentions_pydantic(payload_type):
        return _pydantic_codec(payload_type)
    info = msgspec.inspect.type_info(payload_type)
    if isinstance(info, msgspec.inspect.CustomType):
        raise TypeError("it is none of dataclass, pydantic model, msgspec struct, attrs, TypedDict")
    return _msgspec_codec(payload_type)


def _msgspec_codec(payload_type: Any) -> Codec[Any]:
    name = _name(payload_type)

    def read(value: Json) -> Any:
        try:
            return msgspec.convert(value, payload_type, str_keys=True, dec_hook=_nested)
        except msgspec.ValidationError as exc:
            raise _misfit(name, str(exc)) from None

    return Codec(name, read)


def _nested(inner_type: type, value: Any) -> Any:
    """A field's type that msgspec does not know itself."""
    if _is_pydantic(inner_type):
        return codec_for(inner_type).decode(value)
    raise TypeError(
        f"a field has the type {inner_type.__qualname__}, which can't be read from JSON"
    )


def _pydantic_codec(payload_type: Any) -> Codec[Any]:
    from pydantic import ValidationError  # noqa: PLC0415  its model is here, so it is installed

    name = _name(payload_type)
    adapter = _pydantic_adapter(payload_type)

    def read(value: Json) -> Any:
        try:
            # As JSON and not as Python values: a strict model takes a datetime from text only so.
            return adapter.validate_json(json.dumps(value))
        except ValidationError as exc:
            found = exc.errors(include_url=False, include_input=False, include_context=False)
            raise _misfit(name, _problems([(each["loc"], each["msg"]) for each in found])) from None

    return Codec(name, read)


@cache
def _pydantic_adapter(payload_type: Any) -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(payload_type)


def _problems(found: list[tuple[tuple[int | str, ...], str]]) -> str:
    shown = [f"{text} - at `${_path(place)}`" for place, text in found[:_PROBLEMS_SHOWN]]
    rest = len(found) - len(shown)
    return "; ".join(shown) + (f"; and {rest} more" if rest else "")


def _path(place: tuple[int | str, ...]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)


def _mentions_pydantic(payload_type: Any) -> bool:
    return _is_pydantic(payload_type) or any(
        _mentions_pydantic(inner) for inner in get_args(payload_type)
    )


def _is_pydantic(payload_type: Any) -> bool:
    return isinstance(payload_type, type) and hasattr(payload_type, "__pydantic_validator__")


def _misfit(name: str, problem: str) -> PayloadInvalid:
    return PayloadInvalid(f"the payload is no {name}: {problem}"[:_LONGEST_PROBLEM])


def _unusable(payload_type: Any, problem: str) -> InvalidSetting:
    return InvalidSetting(f"payload_type {_name(payload_type)} can't be used: {problem}")


def _name(payload_type: Any) -> str:
    return str(payload_type) if get_args(payload_type) else getattr(payload_type, "__name__", "?")


def decode_deep(text: str, whole: Callable[[str], int | float] = int) -> Any:
    """The value of JSON text that is nested deeper than Python's readers go.

    They call themselves for each level and stop at about a thousand; PostgreSQL stores several
    thousand.  One such message must not stop the batch it came with, so it is read here without
    recursion.  The text is not checked: the database has written it.
    """
    root: list[Any] = []
    # Each open list or object, and the name whose value an object waits for.
    nested: list[tuple[Any, list[str]]] = [(root, [])]
    for piece in _TOKEN.findall(text):
        match piece:
            case "]" | "}":
                nested.pop()
            case "[" | "{":
                made: Any = [] if piece == "[" else {}
                _put(nested[-1], made)
                nested.append((made, []))
            case _:
                _put(nested[-1], json.loads(piece, parse_int=whole))
    return root[0]


def _put(into: tuple[Any, list[str]], value: Any) -> None:
    holder, name = into
    if isinstance(holder, list):
        holder.append(value)
    elif name:
        holder[name.pop()] = value
    else:
        name.append(value)
