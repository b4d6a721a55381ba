"""What the task door raises.

::

    PenstockError
    └── TaskError
        ├── DuplicateTask         .task_id is the task that was there first
        ├── LeaseLost             the lease ended, or another worker has the task
        ├── TaskNotFound
        ├── TaskExpired           it would have been too late before it was stored
        ├── InvalidTask           a name, a number or a time that can't be used
        ├── TaskTooLarge          more than the table's column or the server takes
        ├── TablesMissing         run `penstock task init`
        └── ServerUnsuitable      no SKIP LOCKED, or a version that is too old
"""

from __future__ import annotations

from penstock.errors import PenstockError


class TaskError(PenstockError):
    """The root of the task door's errors."""


class DuplicateTask(TaskError):
    """A task with this id, or with this tenant and dedupe key, is there already."""

    def __init__(self, task_id: str, *, tenant_id: str, dedupe_key: str | None) -> None:
        named = f"id {task_id!r}" if dedupe_key is None else f"dedupe key {dedupe_key!r}"
        super().__init__(
            f"tenant {tenant_id!r} has a task with {named} already: it is task {task_id}"
        )
        self.task_id = task_id
        self.tenant_id = tenant_id
        self.dedupe_key = dedupe_key

    def __reduce__(self) -> tuple[object, ...]:
        return _duplicate, (self.task_id, self.tenant_id, self.dedupe_key)


def _duplicate(task_id: str, tenant_id: str, dedupe_key: str | None) -> DuplicateTask:
    return DuplicateTask(task_id, tenant_id=tenant_id, dedupe_key=dedupe_key)


class LeaseLost(TaskError):
    """The lease is over, so what its holder says no longer counts."""

    def __init__(self, task_id: str) -> None:
        super().__init__(
            f"the lease on task {task_id} is lost: it ended, the task was cancelled, or another "
            "worker has it; extend leases in time, and drop the work of this attempt"
        )
        self.task_id = task_id

    def __reduce__(self) -> tuple[object, ...]:
        return LeaseLost, (self.task_id,)


class TaskNotFound(TaskError):
    """No task has this id."""


class TaskExpired(TaskError):
    """The task's `expires_at` is not in the future."""


class InvalidTask(TaskError):
    """A task or an option that can't be used."""


class TaskTooLarge(TaskError):
    """A value is larger than its column, or than what the server takes at once."""


class TablesMissing(TaskError):
    """The tables are not there, or lack a column."""


class ServerUnsuitable(TaskError):
    """The server can't do what tasks need."""
