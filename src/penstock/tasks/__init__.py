"""Tasks: durable jobs with tenants, priorities and leases, on PostgreSQL, MySQL and MariaDB.

async with penstock.tasks.connect("mysql://app@localhost/shop") as queue:
    await queue.enqueue("mail", {"to": "ada"}, tenant_id="acme", priority=Priority.HIGH)
"""

from importlib import import_module

from penstock.tasks._async.queue import TaskQueue, connect
from penstock.tasks._async.store import open_store
from penstock.tasks.errors import (
    DuplicateTask,
    InvalidTask,
    LeaseLost,
    ServerUnsuitable,
    TablesMissing,
    TaskError,
    TaskExpired,
    TaskNotFound,
    TaskTooLarge,
)
from penstock.tasks.options import Policy, StoreOptions, Tables
from penstock.tasks.store import TaskStore
from penstock.tasks.stores.memory_store import MemoryTaskStore
from penstock.tasks.stores.postgres_store import PostgresTaskStore
from penstock.tasks.task import (
    Attempt,
    AttemptLogFailure,
    DeadTask,
    Dedupe,
    Finding,
    Lease,
    NewTask,
    Priority,
    Replayed,
    Stats,
    Status,
    Task,
    TaskId,
)
from penstock.tasks.task_source import Backoff
from penstock.tasks.worker import TaskWorker
from penstock.worker.outcomes import Dead, Retry

__all__ = [
    "Attempt",
    "AttemptLogFailure",
    "Backoff",
    "Dead",
    "DeadTask",
    "Dedupe",
    "DuplicateTask",
    "Finding",
    "InvalidTask",
    "Lease",
    "LeaseLost",
    "MemoryTaskStore",
    "MySQLTaskStore",
    "NewTask",
    "Policy",
    "PostgresTaskStore",
    "Priority",
    "Replayed",
    "Retry",
    "ServerUnsuitable",
    "Stats",
    "Status",
    "StoreOptions",
    "Tables",
    "TablesMissing",
    "Task",
    "TaskError",
    "TaskExpired",
    "TaskId",
    "TaskNotFound",
    "TaskQueue",
    "TaskStore",
    "TaskTooLarge",
    "TaskWorker",
    "connect",
    "open_store",
]


def __getattr__(name: str) -> object:
    # Its driver is an extra, so it is imported by those who use it.
    if name == "MySQLTaskStore":
        from penstock.tasks.stores.mysql_store import MySQLTaskStore  # noqa: PLC0415

        return MySQLTaskStore
    if name == "sync":
        return import_module("penstock.tasks.sync")
    raise AttributeError(f"module 'penstock.tasks' has no attribute {name!r}")
