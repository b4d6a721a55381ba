"""What a worker is doing, as plain values for people, probes and tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class State(StrEnum):
    """Where a worker is in its life."""

    NEW = "new"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class HandlerStatus:
    """One queue in a worker: what it holds, and what became of the rest."""

    queue: str
    """Or the topic of tasks."""
    running: int
    waiting: int
    held: int
    claimed: int
    acked: int
    failed: int
    """Attempts that ended in an error and will be repeated, or were the last."""
    dead: int
    """Dead letters by this worker's word: `Dead`, a misfit payload, or the last attempt failed."""
    released: int
    lost: int
    trouble: str | None
    """Why the queue can't be read at the moment."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker at one moment, with every queue that it serves."""

    name: str
    state: State
    handlers: tuple[HandlerStatus, ...] = field(default=())
    schedules_fired: int = 0

    @property
    def running(self) -> int:
        return sum(each.running for each in self.handlers)

    @property
    def acked(self) -> int:
        return sum(each.acked for each in self.handlers)

    @property
    def failed(self) -> int:
        return sum(each.failed for each in self.handlers)

    @property
    def healthy(self) -> bool:
        """It runs, and every queue can be read."""
        return self.state is State.RUNNING and all(each.trouble is None for each in self.handlers)
