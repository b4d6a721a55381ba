"""One value that says whether all is well: for probes, for `penstock doctor`, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.models import HealthCheck

if TYPE_CHECKING:
    from collections.abc import Iterable

# These need an operator's decision; a restart of the process does not help.
_NO_REASON_TO_RESTART = frozenset(
    {
        *("dead letters", "exclusive queues", "housekeeping", "clock", "settings", "segments"),
        *("old transactions", "prepared transactions", "replication slots", "wraparound"),
        "indexes",
    }
)


@dataclass(frozen=True, slots=True)
class Health:
    """What was looked at, and what came out."""

    checks: tuple[HealthCheck, ...]

    @property
    def ok(self) -> bool:
        """Nothing at all is wrong."""
        return all(check.ok for check in self.checks)

    @property
    def serving(self) -> bool:
        """Messages can be published and claimed: what a readiness probe asks."""
        return all(check.ok or check.name in _NO_REASON_TO_RESTART for check in self.checks)

    @property
    def problems(self) -> tuple[HealthCheck, ...]:
        """The checks that failed, each with its advice."""
        return tuple(check for check in self.checks if not check.ok)


def summary(checks: Iterable[HealthCheck]) -> Health:
    """The value for checks that were made elsewhere."""
    return Health(tuple(checks))


async def health(client: Any) -> Health:
    """Ask the engine through an open client; a database that does not answer is an answer too."""
    try:
        engine = await client.health()
    except PenstockError as problem:
        return summary([_connection(problem)])
    return summary([_connection(None), *engine])


async def worker_health(worker: Any) -> Health:
    """The same for a worker: its client, its state, and every queue that it serves."""
    status = worker.status()
    queues = [
        HealthCheck(
            name=f"queue {each.queue}",
            ok=each.trouble is None,
            detail=each.trouble or f"{each.running} running, {each.waiting} waiting",
            advice=None,
        )
        for each in status.handlers
    ]
    runs = HealthCheck(
        name="worker",
        ok=status.state == "running",
        detail=f"{status.name} is {status.state}",
        advice=None,
    )
    return summary([*(await health(worker.client)).checks, runs, *queues])


def _connection(problem: PenstockError | None) -> HealthCheck:
    if problem is None:
        return HealthCheck("connection", ok=True, detail="the database answers", advice=None)
    detail, _, advice = str(problem).partition("\n")
    return HealthCheck("connection", ok=False, detail=detail, advice=advice or None)
