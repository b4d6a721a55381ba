"""Filters of the templates: numbers, sizes and times as readable text."""

from __future__ import annotations

import base64
import codecs
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.client.facts import COUNTED_TO

NOTHING = "\u2013"
"""An en dash, where there is no value."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_KILO = 1000
_KIBI = 1024


def count(value: int | None) -> str:
    """A bounded count: one above the bound means more."""
    if value is None:
        return NOTHING
    return f"{COUNTED_TO:,}+" if value > COUNTED_TO else f"{value:,}"


def rate(value: float) -> str:
    """Messages per second."""
    if value >= _KILO:
        return f"{value / _KILO:,.1f}k"
    if value >= 10:  # noqa: PLR2004 - from here on a fraction is noise
        return f"{value:,.0f}"
    return f"{value:.1f}" if value else "0"


def seconds(value: float | None) -> str:
    """A short duration, such as a latency."""
    if value is None:
        return NOTHING
    if value < 0.001:  # noqa: PLR2004
        return "<1 ms"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 10:  # noqa: PLR2004
        return f"{value:.1f} s"
    return span(timedelta(seconds=value))


def span(value: timedelta | None) -> str:
    """A longer duration in its two largest units."""
    if value is None:
        return NOTHING
    whole = round(abs(value.total_seconds()))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return _two(f"{whole // _MINUTE} min", whole % _MINUTE, "s")
    if whole < _DAY:
        return _two(f"{whole // _HOUR} h", whole % _HOUR // _MINUTE, "min")
    return _two(f"{whole // _DAY} d", whole % _DAY // _HOUR, "h")


def _two(large: str, rest: int, unit: str) -> str:
    return f"{large} {rest:02} {unit}" if rest else large


def ago(moment: datetime | None, now: datetime) -> str:
    return NOTHING if moment is None else span(max(now - moment, timedelta(0)))


def until(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return NOTHING
    return f"in {span(moment - now)}" if moment > now else f"{span(now - moment)} ago"


def moment(value: datetime | str | None) -> str:
    """A moment in UTC; text as JSON histories hold it is understood as well."""
    match value:
        case None:
            return NOTHING
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        case str():
            try:
                return moment(datetime.fromisoformat(value))
            except ValueError:
                return value


def size(value: int) -> str:
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KIBI:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KIBI
    return f"{amount:.1f} TiB"


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def readable(content: bytes) -> str:
    """Bytes as text where they are text, else as base64; a character cut in two is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(content).decode()}"


def pretty(text: str) -> str:
    """JSON with indents; what is no whole document is left as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def lasted(attempt: dict[str, Any]) -> str:
    """How long an attempt of a history took."""
    try:
        began = datetime.fromisoformat(attempt["claimed_at"])
        ended = datetime.fromisoformat(attempt["ended_at"])
    except (KeyError, TypeError, ValueError):
        return NOTHING
    return seconds((ended - began).total_seconds())
