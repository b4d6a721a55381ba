"""A history made small enough to keep: counts a second, every fault, and the eventful messages.

A message is eventful when it was delivered more than once, or when its publisher was not told at
once that it is stored.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from prove import ledger
from prove.ledger import NOWHERE, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from prove.ledger import Entry

# A line of a story packs to some 40 bytes.
STORIES = 2000


def lines(histories: Iterable[Path]) -> list[str]:
    """The histories as JSON lines, one after the other."""
    return [
        json.dumps({"history": path.stem, **line}, ensure_ascii=False) + "\n"
        for path in histories
        for line in _condensed(ledger.read(path))
    ]


def _condensed(entries: list[Entry]) -> Iterator[dict[str, object]]:
    if not entries:
        return
    start = entries[0].at
    yield from _seconds(entries, start)
    yield from _faults(entries, start)
    yield from _stories(entries, start)


def _seconds(entries: list[Entry], start: int) -> Iterator[dict[str, object]]:
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for entry in entries:
        if entry.step is not Step.FAULT:
            found[(entry.at - start) // 1000][entry.step] += 1
    for second, counts in sorted(found.items()):
        yield {"second": second, **counts}


def _faults(entries: list[Entry], start: int) -> Iterator[dict[str, object]]:
    for entry in entries:
        if entry.step is Step.FAULT:
            yield {"at_ms": entry.at - start, "fault": entry.place, "count": entry.number}


def _stories(entries: list[Entry], start: int) -> Iterator[dict[str, object]]:
    stories: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.step not in (Step.FAULT, Step.EXTENDED, Step.HOLDING, Step.TROUBLE):
            stories[entry.number].append(entry)
    eventful = [number for number, story in sorted(stories.items()) if _eventful(story)]
    # Evenly over the whole run when there are too many.
    for number in eventful[:: len(eventful) // STORIES + 1]:
        yield {"message": number, "story": [_told(entry, start) for entry in stories[number]]}


def _eventful(story: list[Entry]) -> bool:
    deliveries = Counter(entry.place for entry in story if entry.step is Step.DELIVERED)
    told = {entry.step for entry in story} & {Step.UNKNOWN, Step.REFUSED, Step.STALE_ACCEPTED}
    return bool(told) or any(times > 1 for times in deliveries.values())


def _told(entry: Entry, start: int) -> list[object]:
    told: list[object] = [entry.at - start, entry.actor, entry.step.value]
    if entry.message_id:
        told += [entry.message_id, entry.attempt]
    return told if entry.place == NOWHERE else [*told, entry.place]
