"""What a part of the programme is, what it is given, and what it gives back."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Figure = int | float


@dataclass(frozen=True, slots=True)
class Take:
    """One run of a part: as it should be, or sabotaged."""

    seed: int
    quick: bool
    """Small counts: does everything work?"""
    sabotaged: bool
    folder: Path
    """For logs and the history: `*.log`."""
    say: Callable[[str], None]

    @property
    def luck(self) -> random.Random:
        """The same for a run and its twin, and for a replay."""
        return random.Random(self.seed)

    def size(self, full: int, quick: int, twin: int | None = None) -> int:
        """How much: the twin needs just enough to be caught."""
        if self.quick:
            return quick
        return twin if self.sabotaged and twin is not None else full


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was counted, and which promises were broken, how often."""

    counts: Mapping[str, Figure] = field(default_factory=dict)
    broken: Mapping[str, int] = field(default_factory=dict)
    skipped: str = ""
    """Why this machine can't run it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A promise, and the programme that puts it to the test."""

    name: str
    promise: str
    how: str
    sabotage: str
    """What the twin does wrong."""
    breaks: frozenset[str]
    """What the checker must find broken in the twin; empty: the part has no twin of its own."""
    play: Callable[[Take], Outcome]
    enough: Mapping[str, int] = field(default_factory=dict)
    """Counts that a full run must reach, or it tells too little."""


@dataclass(frozen=True, slots=True)
class Report:
    """A part and its twin, as they were played."""

    part: Part
    seed: int
    quick: bool
    seconds: float
    honest: Outcome
    twin: Outcome | None
    environment: Mapping[str, object]

    @property
    def short(self) -> dict[str, Figure]:
        """Counts that were not reached."""
        if self.quick or self.honest.skipped:
            return {}
        counts = self.honest.counts
        return {
            name: counts.get(name, 0)
            for name, wanted in self.part.enough.items()
            if counts.get(name, 0) < wanted
        }

    @property
    def caught(self) -> bool:
        """The twin broke what it was meant to break, and the checker saw it."""
        if not self.part.breaks:
            return True
        return self.twin is not None and bool(self.part.breaks & self.twin.broken.keys())

    @property
    def status(self) -> str:
        if self.honest.skipped:
            return "skipped"
        if self.honest.broken:
            return "broken"
        if self.short:
            return "too small"
        return "kept" if self.caught else "twin not caught"
