"""The contract that every task store keeps: `tests/tasks/conformance` holds each of them to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy
from penstock.tasks.task import (
    Attempt,
    DeadTask,
    Finding,
    Lease,
    NewTask,
    Replayed,
    Stats,
    Status,
    Task,
    TaskId,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


class TaskStore(Protocol):
    """Keeps tasks.  All times are the store's own clock: a database's, never a client's.

    Every call is repeated inside the store when the database was away for a moment, broke the
    connection or chose the call as a deadlock's victim.
    """

    wakes: bool
    """Whether `wait` hears of new tasks; otherwise it just sleeps, and workers poll."""

    async def open(self) -> Self:
        """Connect, and check that the server and its tables can be used."""
        ...

    async def close(self) -> None:
        """Give every connection back.  Closing twice is harmless."""
        ...

    async def create_tables(self) -> None:
        """Make the tables and indexes that are missing; what is there is left as it is."""
        ...

    async def insert(self, task: NewTask, *, connection: Any = None) -> TaskId:
        """Store a task.

        With `connection` it is stored in that connection's open transaction (PostgreSQL only), and
        exists when that commits.  Raises DuplicateTask with the first task's id, TaskExpired.
        """
        ...

    async def insert_many(
        self, tasks: Sequence[NewTask], *, skip_duplicates: bool = False, connection: Any = None
    ) -> list[TaskId]:
        """Store all of them or none, and give their ids in the same order.

        With `skip_duplicates` a task that is there already is left out, and its first id is given.
        """
        ...

    async def reserve(
        self,
        owner: str,
        *,
        topics: Sequence[str] | None = None,
        tenant_id: str | None = None,
        limit: int = 1,
        lease: timedelta = DEFAULT_LEASE,
        policy: Policy = PLAIN,
    ) -> list[Task]:
        """Lease up to `limit` tasks to `owner`: highest priority first, then oldest first.

        Counts an attempt for each.  Tasks whose lease has ended are among them; one that has used
        up its attempts is dead instead, and one whose `expires_at` has passed is expired.
        """
        ...

    async def ack(self, lease: Lease, *, result: bytes | None = None) -> None:
        """The task is done; `result`, if given, is kept with it.  Raises LeaseLost."""
        ...

    async def release(
        self,
        lease: Lease,
        *,
        delay: timedelta | None = None,
        reason: str | None = None,
        counts: bool = True,
    ) -> Status:
        """Give the task back, to be tried again after `delay`.  Raises LeaseLost.

        After the last attempt it goes to the dead letters instead, and the result says DEAD.  With
        `counts=False` the attempt is not held against it: one more is allowed.
        """
        ...

    async def move_to_dlq(self, lease: Lease, reason: str) -> None:
        """Trying again is of no use: put the task with the dead letters.  Raises LeaseLost."""
        ...

    async def extend_lease(self, lease: Lease, by: timedelta = DEFAULT_LEASE) -> Lease:
        """Hold the task until `by` from now.  Raises LeaseLost, also when the lease has ended."""
        ...

    async def cancel(self, task_id: TaskId, reason: str = "cancelled") -> bool:
        """End an open task: it becomes dead without a dead letter, and its worker loses the lease.

        False when it is done, dead or expired already.  Raises TaskNotFound.
        """
        ...

    async def retry(self, task_id: TaskId) -> bool:
        """Queue a dead, expired or waiting task now, with its attempts at zero.

        False when it is leased or done.  Its dead letter, if any, is removed.  Raises TaskNotFound.
        """
        ...

    async def get(self, task_id: TaskId) -> Task | None:
        """The task as it stands now, or None."""
        ...

    async def result(self, task_id: TaskId) -> bytes | None:
        """What the task's worker left with its ack, or None."""
        ...

    async def list_tasks(
        self,
        *,
        status: Status | None = None,
        topic: str | None = None,
        tenant_id: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        """The newest tasks first."""
        ...

    async def list_dlq(
        self, *, topic: str | None = None, tenant_id: str | None = None, limit: int = 100
    ) -> list[DeadTask]:
        """The dead letters, oldest first: the order in which `replay_dlq` takes them."""
        ...

    async def attempts(self, task_id: TaskId) -> list[Attempt]:
        """The attempt log of one task, oldest first; empty when the log is off."""
        ...

    async def stats(self, *, topic: str | None = None, tenant_id: str | None = None) -> Stats:
        """How many tasks stand where."""
        ...

    async def replay_dlq(
        self,
        *,
        limit: int | None = None,
        delay: timedelta | None = None,
        available_at: datetime | None = None,
        reset_attempts: bool = True,
        topic: str | None = None,
        tenant_id: str | None = None,
    ) -> Replayed:
        """Move dead letters back among the tasks, oldest first, and say how many are left.

        With `reset_attempts=False` the attempts stay counted, and one more is allowed.
        """
        ...

    async def purge(
        self, older_than: timedelta, *, statuses: Sequence[Status] = (Status.DONE,)
    ) -> int:
        """Delete finished tasks.

        One with a dedupe key stays: the key must be remembered.  The task of a schedule's fire
        stays for two days, or a worker that starts meanwhile would make the fire once more.
        """
        ...

    async def wait(self, at_most: timedelta) -> bool:
        """Sleep until a task may have come (True), or until the time is over (False)."""
        ...

    async def now(self) -> datetime:
        """The store's clock."""
        ...

    def shift_clock(self, by: timedelta) -> None:
        """For tests: let this much time pass, for this store object."""
        ...

    async def check(self) -> list[Finding]:
        """What is good about server and tables, and what should be improved."""
        ...
