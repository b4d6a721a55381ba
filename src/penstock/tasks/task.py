"""Tasks as values: what is enqueued, what a worker gets, and what the store can tell about them."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, IntEnum, StrEnum
from typing import Any, NewType, TypeAlias

from penstock.tasks.errors import InvalidTask

TaskId = NewType("TaskId", str)

LONGEST_ID = 64
LONGEST_TOPIC = 255
LONGEST_TENANT = 64
LONGEST_OWNER = 64
LONGEST_DEDUPE_KEY = 128
LONGEST_REASON = 8000
DEFAULT_MAX_ATTEMPTS = 5
DEFAULT_TENANT = "default"
FIRE_PREFIX = "cron-"
"""How the ids of tasks begin that a schedule enqueues: every worker gives a fire the same id."""
FIRE_REMEMBERED = timedelta(days=2)
"""How long `purge` keeps a fire's task after it was stored.

A worker that starts looks back one day for a fire that was missed.  As long as it may look, the id
must be taken, or the fire would be made once more.
"""
_INT_LIMIT = 2**31 - 1
# Behind an odd number of backslashes it is a NUL, behind an even one a text that speaks of it.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


_last = 0
_lock = threading.Lock()
# Sixteen bits of a counter behind 48 bits of milliseconds, so that ids of one process ascend.
_COUNTER_BITS = 16


def new_task_id() -> TaskId:
    """An id that sorts by time: tasks that were made in one instant keep their order."""
    global _last  # noqa: PLW0603 - one sequence for the process is the point
    with _lock:
        _last = max(_last + 1, (time.time_ns() // 1_000_000) << _COUNTER_BITS)
        return TaskId(f"{_last:016x}{secrets.token_hex(8)}")


class Status(StrEnum):
    """Where a task stands."""

    QUEUED = "queued"
    """Waits for a worker, or for its time."""
    LEASED = "leased"
    """A worker has it, until the lease ends."""
    DONE = "done"
    DEAD = "dead"
    """Used up its attempts, was buried or was cancelled."""
    EXPIRED = "expired"
    """Its `expires_at` came before a worker did."""


OPEN = frozenset({Status.QUEUED, Status.LEASED})


class Priority(IntEnum):
    """Levels with names; any other whole number does as well, and the higher goes first."""

    LOWEST = 0
    LOW = 10
    NORMAL = 20
    HIGH = 30
    HIGHEST = 40


class Dedupe(Enum):
    """How long a dedupe key keeps a second task out.  A `timedelta` is a choice as well."""

    FOREVER = "forever"
    WHILE_OPEN = "while open"
    """Until the first task is done, dead or expired."""


Deduping: TypeAlias = Dedupe | timedelta


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to be."""

    topic: str
    payload: bytes = b""
    tenant_id: str = DEFAULT_TENANT
    meta: dict[str, Any] | None = None
    priority: int = Priority.NORMAL
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    delay: timedelta | None = None
    """From the database's now on; or `available_at`, a moment."""
    available_at: datetime | None = None
    expires_in: timedelta | None = None
    """From the database's now on; or `expires_at`, a moment."""
    expires_at: datetime | None = None
    dedupe_key: str | None = None
    dedupe: Deduping = Dedupe.FOREVER
    id: TaskId = field(default_factory=new_task_id)

    def __post_init__(self) -> None:
        _check_text("topic", self.topic, LONGEST_TOPIC)
        _check_text("tenant_id", self.tenant_id, LONGEST_TENANT)
        _check_text("id", self.id, LONGEST_ID)
        if self.dedupe_key is not None:
            _check_text("dedupe_key", self.dedupe_key, LONGEST_DEDUPE_KEY)
        if not isinstance(self.payload, bytes):
            raise InvalidTask(
                f"payload is {type(self.payload).__name__}: give bytes, "
                "for example json.dumps(value).encode()"
            )
        _check_times(self)
        if not -_INT_LIMIT <= self.priority <= _INT_LIMIT:
            raise InvalidTask(f"priority is {self.priority}: a 32-bit number is needed")
        if not 1 <= self.max_attempts <= _INT_LIMIT // 2:
            raise InvalidTask(f"max_attempts is {self.max_attempts}: 1 or more is needed")
        self.meta_text()

    def meta_text(self) -> str | None:
        """The meta data as the JSON that is stored."""
        if self.meta is None:
            return None
        try:
            text = json.dumps(self.meta, ensure_ascii=False, allow_nan=False)
            text.encode()
        except UnicodeEncodeError:
            raise InvalidTask("meta holds half a surrogate pair, which is no text") from None
        except (TypeError, ValueError, RecursionError) as problem:
            raise InvalidTask(f"meta can't be written as JSON: {problem}") from None
        if _NUL.search(text):
            raise InvalidTask("meta holds U+0000, which PostgreSQL can't store: remove it")
        return text


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to say what becomes of a task: checked by owner, by attempt and by time."""

    task_id: TaskId
    owner: str
    attempt: int
    until: datetime
    started_at: datetime
    """When the task was reserved, by the database's clock."""


@dataclass(frozen=True, slots=True)
class Task:
    """A row of the task table."""

    id: TaskId
    topic: str
    tenant_id: str
    payload: bytes = field(repr=False)
    meta: dict[str, Any] | None
    priority: int
    dedupe_key: str | None
    status: Status
    attempts: int
    max_attempts: int
    available_at: datetime
    lease_owner: str | None
    lease_until: datetime | None
    expires_at: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    created_at: datetime
    updated_at: datetime

    def json(self) -> Any:
        """The payload, read as JSON."""
        return json.loads(self.payload)

    @property
    def lease(self) -> Lease:
        """What a worker shows to ack, release, extend or bury the task it reserved."""
        if self.lease_owner is None or self.lease_until is None:
            raise InvalidTask(f"task {self.id} is {self.status}: only a reserved task has a lease")
        return Lease(self.id, self.lease_owner, self.attempts, self.lease_until, self.updated_at)


@dataclass(frozen=True, slots=True)
class DeadTask:
    """A row of the dead letter table."""

    number: int
    task_id: TaskId
    topic: str
    tenant_id: str
    payload: bytes = field(repr=False)
    meta: dict[str, Any] | None
    reason: str
    failed_at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """A row of the attempt log."""

    task_id: TaskId
    attempt_no: int
    reason: str | None
    started_at: datetime
    finished_at: datetime | None
    success: bool


@dataclass(frozen=True, slots=True)
class Stats:
    """How many tasks stand where."""

    queued: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    expired: int = 0

    @property
    def total(self) -> int:
        return self.queued + self.leased + self.done + self.dead + self.expired


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay of dead tasks did."""

    replayed: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One point of a look at server and tables: fine, or what to do about it."""

    name: str
    ok: bool
    detail: str
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptLogFailure:
    """What the hook is told when an attempt could not be logged."""

    task_id: TaskId
    attempt_no: int
    error: Exception


def _check_text(name: str, value: str, longest: int) -> None:
    if not value:
        raise InvalidTask(f"{name} is {value!r}: a text is needed")
    if len(value) > longest:
        raise InvalidTask(f"{name} has {len(value)} characters: {longest} at most")
    if "\0" in value:
        raise InvalidTask(f"{name} holds U+0000, which PostgreSQL can't store")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidTask(f"{name} holds half a surrogate pair, which is no text") from None


def check_owner(owner: str) -> None:
    """A lease's owner must fit its column whole, or the fence would not know it again."""
    _check_text("owner", owner, LONGEST_OWNER)


def _check_times(task: NewTask) -> None:
    if task.delay is not None and task.available_at is not None:
        raise InvalidTask("delay and available_at say the same: give one of them")
    if task.expires_in is not None and task.expires_at is not None:
        raise InvalidTask("expires_in and expires_at say the same: give one of them")
    for name in ("available_at", "expires_at"):
        moment: datetime | None = getattr(task, name)
        if moment is not None and moment.tzinfo is None:
            raise InvalidTask(f"{name} has no time zone: use datetime.now(UTC)")
    if task.delay is not None and task.delay < timedelta(0):
        raise InvalidTask(f"delay is {task.delay}: it can't be negative")
    if isinstance(task.dedupe, timedelta) and task.dedupe <= timedelta(0):
        raise InvalidTask(f"dedupe is {task.dedupe}: a time to live must be positive")


def storable(reason: str | None) -> str | None:
    """A reason as every database can keep it, cut to a page or two."""
    if reason is None:
        return None
    clean = reason.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= LONGEST_REASON else clean[: LONGEST_REASON - 1] + "…"


def encoded(payload: bytes | str | dict[str, Any] | list[Any] | None) -> bytes:
    """A payload as the bytes that are stored."""
    match payload:
        case None:
            return b""
        case bytes():
            return payload
        case str():
            return _bytes(payload)
        case _:
            return _bytes(_written(payload))


def _written(payload: Any) -> str:
    try:
        return json.dumps(payload, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidTask(f"the payload can't be written as JSON: {problem}") from None


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidTask("the payload holds half a surrogate pair, which is no text") from None
