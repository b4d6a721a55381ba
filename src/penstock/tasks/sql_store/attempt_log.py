"""The attempt log: written after an attempt, on its own; its failure changes no outcome."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.tasks import rows
from penstock.tasks.chores import Locked, lease_ended
from penstock.tasks.sql_store.base import SqlBase
from penstock.tasks.task import AttemptLogFailure, Lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.tasks.retrying import Try
    from penstock.tasks.sql import Session


class AttemptLog(SqlBase):
    """Writes an attempt down when it has ended."""

    async def _log_attempt(self, lease: Lease, reason: str | None, *, success: bool) -> None:
        if not self.options.attempt_log:
            return
        parameters = self._timed(
            id=lease.task_id,
            attempt=lease.attempt,
            reason=reason,
            started_at=rows.stored(lease.started_at),
            success=success,
        )

        async def work(session: Session, _: Try) -> int:
            return await session.run(self._dialect["log_attempt"], parameters)

        try:
            async with asyncio.timeout(self.options.attempt_log_timeout.total_seconds()):
                await self._directly(work)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the ack stands
            self.options.tell_of_log_failure(
                AttemptLogFailure(lease.task_id, lease.attempt, problem)
            )

    async def _log_ended(self, ended: Sequence[Locked]) -> None:
        for each in ended:
            assert each.lease_until is not None
            lease = Lease(
                each.id, each.lease_owner or "", each.attempts, each.lease_until, each.updated_at
            )
            await self._log_attempt(lease, lease_ended(each), success=False)
