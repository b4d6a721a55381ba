"""Housekeeping, step by step: each statement is a transaction of its own and does a part of it."""

from __future__ import annotations

from typing import Any

from penstock.client import calls
from penstock.models import MaintenanceStep

MOST_TIMES = 1000
"""How often a step that has more to do is repeated in one run."""


async def maintain(run: Any) -> list[MaintenanceStep]:
    """Do all of it with a function that runs calls.

    A step that fails stops no other and tells its error; one that another session does at this
    moment is left out.
    """
    done = [await _do(run, step) for step in await run(calls.maintenance_steps())]
    return [step for step in done if step is not None]


async def _do(run: Any, step: str) -> MaintenanceStep | None:
    affected, error = 0, None
    for time in range(MOST_TIMES):
        part = await run(calls.maintain_step(step))
        if part is None:
            return MaintenanceStep(step, affected, error) if time else None
        affected += part.affected
        error = part.error or error
        if not part.more:
            break
    return MaintenanceStep(step, affected, error)
