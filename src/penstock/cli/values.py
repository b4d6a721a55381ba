"""From what people type to typed values: durations, headers, JSON."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import typer

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def duration(text: str) -> timedelta:
    """Read `90`, `30s`, `1.5h` or `1h30m`; a bare number is seconds."""
    text = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        text += "s"
    if not re.fullmatch(f"({_PART.pattern})+", text):
        raise typer.BadParameter(f"{text!r} is not a duration; write 500ms, 30s, 5m, 2h or 1d")
    try:
        return sum((float(n) * _UNITS[unit] for n, unit in _PART.findall(text)), timedelta())
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is too long a time") from None


def headers(pairs: list[str]) -> dict[str, Any] | None:
    """Read `name=value` pairs; a value that is JSON keeps its type, anything else is text."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not a header; write name=value")
        found[name] = _json_or_text(value)
    return found or None


def _json_or_text(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def parse_json(text: str) -> Any:
    """Read strict JSON: NaN and Infinity, which Python would let pass, are refused."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def payload(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError as problem:
        raise typer.BadParameter(
            f"the payload is not JSON ({problem}); to send it as plain text add --text"
        ) from None


def json_object(text: str, option: str) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError as problem:
        raise typer.BadParameter(f"not JSON: {problem}", param_hint=option) from None
    if not isinstance(value, dict):
        raise typer.BadParameter('a JSON object is needed: {"…": …}', param_hint=option)
    return value
