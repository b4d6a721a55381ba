"""How a store and a reserve behave, as plain values."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeAlias

from penstock.settings import Settings, variable
from penstock.tasks.errors import InvalidTask
from penstock.tasks.task import AttemptLogFailure, check_owner

_log = logging.getLogger("penstock.tasks")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_LONGEST_NAME = 60
_APPLICATION_NAME = "penstock tasks"

AttemptLogHook: TypeAlias = Callable[[AttemptLogFailure], None]


def log_failure(failure: AttemptLogFailure) -> None:
    """The hook that is used when none is given.  The error's text stays out: it may quote data."""
    _log.warning(
        "attempt %d of task %s could not be logged: %s",
        failure.attempt_no,
        failure.task_id,
        type(failure.error).__name__,
    )


@dataclass(frozen=True, slots=True)
class Tables:
    """The names of the tables; `schema.table` is fine."""

    tasks: str = "mq_tasks"
    dlq: str = "mq_task_dlq"
    attempts: str = "mq_task_attempts"
    results: str = "mq_task_results"
    waiting: str = "mq_task_waiting"
    """PostgreSQL only: stores that wait, and are notified of new tasks."""

    def __post_init__(self) -> None:
        for name in (self.tasks, self.dlq, self.attempts, self.results, self.waiting):
            if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
                raise InvalidTask(
                    f"{name!r} can't be a table here: letters, digits and _ are needed, "
                    f"{_LONGEST_NAME} at most"
                )


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a store is told when it is made.

    Options of the connection that are None are as `Settings` says: `PENSTOCK_POOL_SIZE` and so on,
    else its defaults.
    """

    tables: Tables = field(default_factory=Tables)
    attempt_log: bool = False
    """Write each attempt to the attempt table."""
    attempt_log_hook: AttemptLogHook = log_failure
    """Told of attempts that could not be logged; the ack itself is not held up."""
    attempt_log_timeout: timedelta = timedelta(seconds=1)
    """How long an ack waits at most for its line in the log."""
    pool_size: int | None = None
    """Connections that the store holds at most."""
    pooler: bool | None = None
    """The DSN leads to pgbouncer in transaction mode.  A store notices that by itself, unless the
    pooler hides it."""
    connect_timeout: timedelta | None = None
    """How long to try for a connection."""
    call_timeout: timedelta | None = None
    """How long the server may take for one statement."""
    retry_for: timedelta | None = None
    """How long a call goes on trying while the database is away."""

    def __post_init__(self) -> None:
        if self.pool_size is not None and self.pool_size < 1:
            raise InvalidTask(f"pool_size is {self.pool_size}: 1 or more is needed")

    def settings(self, dsn: str | None = None) -> Settings:
        """The settings of the store's connections: these options, else `PENSTOCK_*`.

        `dsn` is that of a PostgreSQL server; for MySQL everything but the DSN applies.
        """
        environ = {name: text for name, text in os.environ.items() if name != variable("dsn")}
        named = environ.get(variable("application_name"), "").strip()
        return Settings.load(
            environ,
            dsn=dsn,
            pool_size=self.pool_size,
            pooler=self.pooler,
            connect_timeout=self.connect_timeout,
            call_timeout=self.call_timeout,
            retry_for=self.retry_for,
            application_name=named or _APPLICATION_NAME,
        )

    def tell_of_log_failure(self, failure: AttemptLogFailure) -> None:
        """Call the hook; an error of the hook itself is only logged."""
        try:
            self.attempt_log_hook(failure)
        except Exception as problem:  # noqa: BLE001 - what the log was for is done
            _log.warning("the attempt log's hook failed: %s", type(problem).__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """Who goes first, beyond priority and age.  The default is the seed's: nothing beyond."""

    fair: bool = False
    """Tenants take turns; priority counts among the tasks of one tenant."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """How many tasks a tenant gets in its turn; 1 where nothing is said."""
    running_per_tenant: int | None = None
    """Reserve no task of a tenant that has this many leased, all topics and workers together."""
    running_per_topic: int | None = None
    ageing: timedelta | None = None
    """A task gains one step of priority for each such time that it has waited."""

    def __post_init__(self) -> None:
        for name in ("running_per_tenant", "running_per_topic"):
            value: int | None = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidTask(f"{name} is {value}: 1 or more is needed, or None for no cap")
        if any(weight < 1 for weight in self.weights.values()):
            raise InvalidTask("a tenant's weight is 1 or more")
        if self.ageing is not None and self.ageing <= timedelta(0):
            raise InvalidTask(f"ageing is {self.ageing}: a positive time is needed")

    @property
    def capped(self) -> bool:
        return self.running_per_tenant is not None or self.running_per_topic is not None

    @property
    def plain(self) -> bool:
        return not (self.fair or self.capped or self.ageing is not None)

    def weight(self, tenant_id: str) -> int:
        return self.weights.get(tenant_id, 1)


PLAIN = Policy()
DEFAULT_LEASE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a reserve asks for."""

    owner: str
    topics: Sequence[str] | None
    tenant_id: str | None
    limit: int
    lease: timedelta
    policy: Policy

    def __post_init__(self) -> None:
        check_owner(self.owner)
        if self.lease <= timedelta(0):
            raise InvalidTask(f"the lease is {self.lease}: a positive time is needed")

    @property
    def empty(self) -> bool:
        return self.limit < 1 or (self.topics is not None and not self.topics)

    @property
    def plain(self) -> bool:
        """By priority and age alone, from all tenants."""
        return self.policy.plain and self.tenant_id is None
