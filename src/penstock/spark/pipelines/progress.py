"""How a running pipeline is doing: rows, rows per second, lag, and when it will be done."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol, Self

from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.console import Console

# The pace shown is that of the last so many seconds: a stream's past says little about its future.
_PACE_SECONDS = 20.0
_ENDS = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at a pipeline."""

    pipeline: str
    rows: int = 0
    rows_per_second: float = 0.0
    lag: int | None = None
    batches: int = 0
    rejected: int = 0
    phase: str = "running"

    @property
    def eta(self) -> timedelta | None:
        """How long until the lag is gone at this pace; None when it is unknown."""
        if self.lag is None or self.rows_per_second <= 0:
            return None
        return timedelta(seconds=round(self.lag / self.rows_per_second))


class Watcher(Protocol):
    """A callback that is told the progress, a few times a second at most."""

    def __call__(self, progress: Progress) -> None: ...


def silence(progress: Progress) -> None:
    """A watcher that shows nothing."""


class Pace:
    """Rows per second over the last few looks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, rows: int) -> float:
        now = self._clock()
        self._seen.append((now, rows))
        while len(self._seen) > _ENDS and now - self._seen[0][0] > _PACE_SECONDS:
            self._seen.popleft()
        (then, before), (_, after) = self._seen[0], self._seen[-1]
        return (after - before) / (now - then) if now > then else 0.0


class Teller:
    """Feeds a watcher with what the pipeline counts."""

    def __init__(self, pipeline: str, watcher: Watcher) -> None:
        self._pipeline, self._watcher = pipeline, watcher
        self._pace = Pace()
        self.rows = self.batches = self.rejected = 0

    def add(self, rows: int, *, rejected: int = 0, batches: int = 1) -> None:
        self.rows += rows
        self.rejected += rejected
        self.batches += batches

    def tell(self, *, lag: int | None = None, phase: str = "running") -> None:
        pace = self._pace.at(self.rows)
        self._watcher(
            Progress(self._pipeline, self.rows, pace, lag, self.batches, self.rejected, phase)
        )


class LiveLine:
    """A watcher for a terminal: one line that changes; silent if the console is no terminal."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, transient=True, auto_refresh=False)
        self._seen = console.is_terminal

    def __enter__(self) -> Self:
        if self._seen:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._seen:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        if self._seen:
            self._live.update(line(progress), refresh=True)


def line(progress: Progress) -> Text:
    """`archive  120,000 rows  ·  8,100 rows/s  ·  lag 40,000  ·  5 s left`"""
    parts = [Text.assemble((progress.pipeline, "bold"), f"  {progress.phase}")]
    if progress.rows or progress.batches:
        parts.append(Text(f"{progress.rows:,} rows"))
        parts.append(Text(f"{progress.rows_per_second:,.0f} rows/s"))
    if progress.rejected:
        parts.append(Text(f"{progress.rejected:,} rejected", style="red"))
    if progress.lag is not None:
        parts.append(Text(f"lag {progress.lag:,}"))
    if progress.lag and progress.eta is not None:
        parts.append(Text(f"{progress.eta} left"))
    return Text("  ·  ").join(parts)
