"""Options as the user gave them, asked for one by one and turned into values."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from penstock.spark.errors import InvalidOption
from penstock.spark.offsets import Snapshot
from penstock.spark.option_names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EARLIEST = "earliest"
LATEST = "latest"
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class Start:
    """Where to begin or to end: a word, an offset of ours, or the first id of each topic."""

    word: str | None = None
    offset: dict[str, Any] | None = None
    floors: dict[str, int] | None = None


class Given:
    """The options as the user gave them, asked for one by one."""

    def __init__(self, given: Mapping[str, str], use: str | None) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        for name in self._given:
            check_name(name, use)

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower(), "").strip()
        return value or None

    def words(self, name: str) -> tuple[str, ...]:
        words = (word.strip() for word in self._given.get(name.lower(), "").split(","))
        return tuple(dict.fromkeys(word for word in words if word))

    def topics(self) -> tuple[str, ...]:
        ways = [way for way in ("subscribe", "topic", "path") if self.text(way)]
        if len(ways) > 1:
            raise InvalidOption(f"topics are given twice, by {' and by '.join(ways)}: choose one")
        return self.words(ways[0]) if ways else ()

    def one_of(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower().replace("_", "-")
        plain = {choice.replace("_", "-"): choice for choice in choices}
        if value not in plain:
            raise InvalidOption(f"{name} is {value}: choose from {', '.join(choices)}")
        return plain[value]

    def number(self, name: str, *, least: int = 1) -> int | None:
        found: int | None = self._converted(name, lambda text: _number(text, least))
        return found

    def flag(self, name: str, *, default: bool) -> bool:
        value = (self.text(name) or str(default)).lower()
        if value not in {"true", "false"}:
            raise InvalidOption(f"{name} is {value}: true or false is needed")
        return value == "true"

    def time(self, *names: str) -> datetime | None:
        found = [name for name in names if self.text(name)]
        if len(found) > 1:
            raise InvalidOption(f"{' and '.join(found)} mean the same: give one of them")
        return self._converted(found[0], _moment) if found else None

    def duration(self, name: str, default: timedelta) -> timedelta:
        found: timedelta | None = self._converted(name, _span)
        return default if found is None else found

    def start(self, name: str, default: str) -> Start:
        return self._converted(name, _start) or Start(default)

    def _converted(self, name: str, convert: Callable[[str], Any]) -> Any:
        text = self.text(name)
        if text is None:
            return None
        try:
            return convert(text)
        except OverflowError:
            raise InvalidOption(f"{name} is {text}: that is too large") from None
        except ValueError as problem:
            raise InvalidOption(f"{name} is {text}: {problem}") from None


def _number(text: str, least: int) -> int:
    if not re.fullmatch(r"\d+", text) or not least <= int(text) <= _LARGEST:
        raise ValueError(f"a whole number from {least} is needed")
    return int(text)


def _moment(text: str) -> datetime:
    if re.fullmatch(r"\d+", text):
        return datetime.fromtimestamp(int(text) / 1000, UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("milliseconds since 1970 or ISO 8601 is needed") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _span(text: str) -> timedelta:
    match = re.fullmatch(
        r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)(?:ec(?:ond)?s?|utes?|ours?|ays?)?", text
    )
    if match is None:
        raise ValueError("a duration such as 500ms, 30s or 15m is needed")
    return timedelta(seconds=float(match[1]) * _UNITS[match[2]])


def _start(text: str) -> Start:
    if text.lower() in {EARLIEST, LATEST}:
        return Start(text.lower())
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):  # the user gave text, so it is a matter of its value
        raise ValueError("earliest, latest or a JSON object is needed")  # noqa: TRY004
    if "snap" in parsed:
        return Start(offset=_checked_offset(parsed))
    return Start(floors={topic: _floor(topic, value) for topic, value in parsed.items()})


def _checked_offset(parsed: dict[str, Any]) -> dict[str, Any]:
    end = parsed.get("to", parsed)
    snapshots = [parsed["snap"], end.get("snap") if isinstance(end, dict) else None]
    if not all(isinstance(each, str) for each in snapshots):
        raise ValueError("that is no offset: give it as a stream reports it")
    for each in snapshots:
        Snapshot.parse(each)
    return parsed


def _floor(topic: str, value: Any) -> int:
    """Kafka's `{"topic": {"0": 23}}`, or shorter `{"topic": 23}`."""
    if isinstance(value, dict):
        value = value.get("0")
    if not isinstance(value, int) or isinstance(value, bool) or value < -2 or value == -1:  # noqa: PLR2004
        raise ValueError(
            f"the first id of topic {topic} is needed, or -2 for its beginning "
            "(a topic is one log, its partition is 0)"
        )
    return max(value, 0)
