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
        """The window that holds a batch: the end's own, when the batch ends inside of one."""
        first = Snapshot.parse(start["snap"])
        last = Snapshot.parse(end.get("to", end)["snap"])
        return cls(
            first,
            last,
            start.get("next") or 0,
            tuple(sorted(xid for xid in first.open if last.sees(xid))),
            start.get("since"),
            tuple(sorted((start.get("floors") or {}).items())),
        )


def same(first: Offset | None, second: Offset | None) -> bool:
    """Whether nothing lies between them."""
    return first == second
