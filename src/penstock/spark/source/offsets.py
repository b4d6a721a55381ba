"""Offsets, as far as Python looks into them: which messages lie between two of them.

An offset is a JSON object that the database makes (`penstock.next_offset`).  The tasks read a
window with plain conditions on transaction ids; they are worked out here from the two snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Offset: TypeAlias = dict[str, Any]

_SNAPSHOT_PARTS = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`xmin:xmax:list`: what had ended when it was taken."""

    xmin: int
    xmax: int
    open: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        parts = text.split(":")
        if len(parts) != _SNAPSHOT_PARTS:
            raise ValueError(f"{text!r} is no snapshot")
        listed = frozenset(int(each) for each in parts[2].split(",") if each)
        return cls(int(parts[0]), int(parts[1]), listed)

    def sees(self, xid: int) -> bool:
        """Had this transaction ended?"""
        return xid < self.xmax and xid not in self.open


@dataclass(frozen=True, slots=True)
class Window:
    """What one snapshot sees and an earlier one did not."""

    start: Snapshot
    end: Snapshot
    from_id: int
    """All but the late messages have a higher id."""
    late: tuple[int, ...] = field(default=())
    """Transactions that were open at the start and had ended at the end."""
    since: str | None = None
    floors: tuple[tuple[str, int], ...] = ()
    """Topics with the lowest id that is wanted of each."""

    @classmethod
    def between(cls, start: Offset, end: Offset) -> Window:
        """The window that holds a batch: the end's own, when the batch ends inside of one.

        A topic that catches up is read up to the point where the batch begins.
        """
        catch_up = end.get("catch_up")
        before, to = (catch_up["from"], start) if catch_up else (start, end.get("to", end))
        first, last = Snapshot.parse(before["snap"]), Snapshot.parse(to["snap"])
        return cls(
            first,
            last,
            before.get("next") or 0,
            tuple(sorted(xid for xid in first.open if last.sees(xid))),
            start.get("since"),
            tuple(sorted((start.get("floors") or {}).items())),
        )


def members(end: Offset, key: str) -> dict[str, int] | None:
    """What the batch before an offset holds, names with ids; None: the offset does not tell."""
    if catch_up := end.get("catch_up"):
        return {catch_up["name"]: catch_up["of"]}
    return end.get(key)


def beginning_of(start: Offset, end: Offset) -> Offset:
    """Where a batch begins: elsewhere than its start says, when the start was lost."""
    found: Offset = end.get("rewind", start)
    return found


def kept_from(start: Offset, end: Offset) -> Offset:
    """The point from which on the log must be there, for the batch between two offsets."""
    found: Offset = end["catch_up"]["from"] if "catch_up" in end else start
    return found


def is_within(start: Offset, end: Offset) -> bool:
    """Whether the end has seen everything that the start has."""
    if "catch_up" in end:
        return True
    first, last = Snapshot.parse(start["snap"]), Snapshot.parse(end.get("to", end)["snap"])
    return first.xmax <= last.xmax and not any(first.sees(xid) for xid in last.open)


def plain(offset: Offset) -> Offset:
    """An offset as the database knows it."""
    return {name: value for name, value in offset.items() if name != "rewind"}


def same(first: Offset | None, second: Offset | None) -> bool:
    """Whether nothing lies between them."""
    return first == second
