"""What every store decides the same way: chores, candidates and dedupe keys.

**Chores** are what a reserve puts in order before it looks for tasks, so that no sweeper is needed:
a lease that has ended, a task that has expired, a delay that is over.  The store finds them at the
end of an index, locks them, and does what is decided here; most reserves find none.

**Candidates** are the tasks that a reserve tries, in order.  A `Reader` answers small questions,
each by a short look at one end of an index.  The reserve locks the candidates one after the other,
and asks for more when other sessions were faster.  So its cost depends on how many tasks it takes,
and at most on the number of topics and tenants, but never on how many tasks wait.

**Dedupe keys**: whether a task that has a key still keeps a second task out.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, assert_never

from penstock.tasks.task import OPEN, Dedupe, Deduping, NewTask, Status, TaskId

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from penstock.tasks.options import Policy

BATCH = 200
"""The largest number of each kind that one reserve puts in order."""


class Chore(Enum):
    """What to do with a task."""

    READY = auto()
    """Its delay is over: it takes its place among the ready ones."""
    EXPIRE = auto()
    REQUEUE = auto()
    """Its lease ended: others may have it."""
    BURY = auto()
    """Its lease ended, and it was the last attempt."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A task that is locked, as far as a chore is concerned."""

    id: TaskId
    status: Status
    attempts: int
    max_attempts: int
    available_at: datetime
    lease_owner: str | None
    lease_until: datetime | None
    expires_at: datetime | None
    created_at: datetime
    updated_at: datetime


def chore_of(task: Locked, now: datetime) -> Chore | None:
    """What is to be done; None: another session did it."""
    expired = task.expires_at is not None and task.expires_at <= now
    if task.status is Status.LEASED and task.lease_until is not None and task.lease_until <= now:
        if task.attempts >= task.max_attempts:
            return Chore.BURY
        return Chore.EXPIRE if expired else Chore.REQUEUE
    if task.status is not Status.QUEUED:
        return None
    if expired:
        return Chore.EXPIRE
    delayed = task.available_at > task.created_at
    return Chore.READY if delayed and task.available_at <= now else None


def sorted_out(tasks: Iterable[Locked], now: datetime) -> dict[Chore, list[Locked]]:
    """The tasks by chore; ids ascend in each, so that two stores never lock crosswise."""
    found: defaultdict[Chore, list[Locked]] = defaultdict(list)
    for task in sorted(tasks, key=lambda each: each.id):
        chore = chore_of(task, now)
        if chore is not None:
            found[chore].append(task)
    return found


def lease_ended(task: Locked) -> str:
    """The reason that the task's record gets."""
    return f"the lease of {task.lease_owner or 'an unknown owner'} ended in attempt {task.attempts}"


# Some candidates are being taken by others at this moment: look at a few more than needed.
_SLACK = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that seems ready."""

    id: TaskId
    topic: str
    tenant_id: str
    priority: int
    created_at: datetime


class Reader(Protocol):
    """What a database is asked; "ready" leaves out what is delayed, leased or closed."""

    async def topics(self) -> list[str]:
        """All topics with ready tasks."""
        ...

    async def tenant_after(self, topics: Sequence[str], tenant_id: str | None) -> str | None:
        """The next tenant, by name, with ready tasks in these topics; None: there is none."""
        ...

    async def levels(self, topics: Sequence[str], tenant_id: str | None) -> list[int]:
        """All priorities that ready tasks of these topics have."""
        ...

    async def heads(
        self, topics: Sequence[str], tenant_id: str | None, priority: int | None, limit: int
    ) -> list[Candidate]:
        """For each topic the first ready tasks in claim order, up to `limit` of each."""
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """What a reserve asks for."""

    topics: tuple[str, ...]
    tenant_id: str | None
    policy: Policy
    now: datetime


@dataclass(slots=True)
class Turn:
    """Whose turn it is: the tenant that got the last task, and how many it got in this turn."""

    tenant_id: str | None = None
    used: int = 0

    def give(self, tenant_id: str) -> None:
        self.used = self.used + 1 if tenant_id == self.tenant_id else 1
        self.tenant_id = tenant_id


@dataclass(slots=True)
class Room:
    """How much may still run, under the caps."""

    policy: Policy
    by_tenant: Counter[str] = field(default_factory=Counter)
    by_topic: Counter[str] = field(default_factory=Counter)

    def count(self, topic: str, tenant_id: str, running: int = 1) -> None:
        self.by_topic[topic] += running
        self.by_tenant[tenant_id] += running

    def tenant_full(self, tenant_id: str) -> bool:
        cap = self.policy.running_per_tenant
        return cap is not None and self.by_tenant[tenant_id] >= cap

    def topic_full(self, topic: str) -> bool:
        cap = self.policy.running_per_topic
        return cap is not None and self.by_topic[topic] >= cap

    def admits(self, candidate: Candidate) -> bool:
        return not (self.tenant_full(candidate.tenant_id) or self.topic_full(candidate.topic))


def candidates(
    reader: Reader, scope: Scope, room: Room, turn: Turn, limit: int
) -> AsyncIterator[Candidate]:
    """Candidates in the order in which they should be taken; each is given once."""
    if scope.policy.fair and scope.tenant_id is None:
        return _in_turns(reader, scope, room, turn)
    return _in_order(reader, scope, room, limit)


async def _in_order(
    reader: Reader, scope: Scope, room: Room, limit: int
) -> AsyncIterator[Candidate]:
    seen: set[TaskId] = set()
    window = 2 * limit + _SLACK
    while True:
        found = await _heads(reader, scope, scope.tenant_id, window)
        for each in found:
            if each.id not in seen:
                seen.add(each.id)
                yield each
        if not _may_hold_more(found, window):
            return
        if sum(map(room.admits, found)) * 2 < len(found) and scope.tenant_id is None:
            # Tenants that may not run stand in front: go around them instead of through them.
            async for each in _of_open_tenants(reader, scope, room, limit):
                if each.id not in seen:
                    seen.add(each.id)
                    yield each
            return
        window *= 4


async def _of_open_tenants(
    reader: Reader, scope: Scope, room: Room, limit: int
) -> AsyncIterator[Candidate]:
    found: list[Candidate] = []
    tenant_id = await reader.tenant_after(scope.topics, None)
    while tenant_id is not None:
        if not room.tenant_full(tenant_id):
            found += await _heads(reader, scope, tenant_id, limit + _SLACK)
        tenant_id = await reader.tenant_after(scope.topics, tenant_id)
    for each in sorted(found, key=_order(scope)):
        yield each


async def _in_turns(
    reader: Reader, scope: Scope, room: Room, turn: Turn
) -> AsyncIterator[Candidate]:
    """A tenant's turn lasts as many tasks as its weight; then the next one by name follows."""
    ring = _Ring(reader, scope)
    tenant_id, used = turn.tenant_id, turn.used
    if tenant_id is None or used >= scope.policy.weight(tenant_id):
        tenant_id, used = await ring.after(tenant_id), 0
    idle = 0
    while tenant_id is not None and idle <= ring.size:
        given = 0
        while used < scope.policy.weight(tenant_id) and not room.tenant_full(tenant_id):
            found = await ring.next_of(tenant_id, room)
            if found is None:
                break
            given, used = given + 1, used + 1
            yield found
        idle = 0 if given else idle + 1
        tenant_id, used = await ring.after(tenant_id), 0


class _Ring:
    """Tenants in a circle, each with the candidates that were fetched for it."""

    def __init__(self, reader: Reader, scope: Scope) -> None:
        self._reader = reader
        self._scope = scope
        self._fetched: dict[str, deque[Candidate]] = {}
        self._seen: set[TaskId] = set()
        self._windows: dict[str, int] = {}

    @property
    def size(self) -> int:
        return len(self._fetched)

    async def after(self, tenant_id: str | None) -> str | None:
        found = await self._reader.tenant_after(self._scope.topics, tenant_id)
        if found is None and tenant_id is not None:
            found = await self._reader.tenant_after(self._scope.topics, None)
        if found is not None:
            self._fetched.setdefault(found, deque())
        return found

    async def next_of(self, tenant_id: str, room: Room) -> Candidate | None:
        waiting = self._fetched.setdefault(tenant_id, deque())
        while True:
            while waiting:
                each = waiting.popleft()
                if not room.topic_full(each.topic):
                    return each
            if not await self._fetch(tenant_id, waiting):
                return None

    async def _fetch(self, tenant_id: str, waiting: deque[Candidate]) -> bool:
        # The first look is for one turn; a tenant that is come back to gets a longer one.
        window = self._windows.get(tenant_id, 0) * 4 or self._scope.policy.weight(tenant_id) + 2
        if window < 0:
            return False
        found = await _heads(self._reader, self._scope, tenant_id, window)
        self._windows[tenant_id] = window if _may_hold_more(found, window) else -1
        fresh = [each for each in found if each.id not in self._seen]
        self._seen.update(each.id for each in fresh)
        waiting.extend(fresh)
        return bool(fresh)


def _may_hold_more(found: Sequence[Candidate], window: int) -> bool:
    return len(found) >= window


async def _heads(
    reader: Reader, scope: Scope, tenant_id: str | None, window: int
) -> list[Candidate]:
    """The first of all topics together, in claim order, up to `window` of them."""
    found: list[Candidate] = []
    if scope.policy.ageing is None:
        found = await reader.heads(scope.topics, tenant_id, None, window)
    else:
        # Within one level the oldest has aged most, so the heads of the levels are enough.
        for priority in await reader.levels(scope.topics, tenant_id):
            found += await reader.heads(scope.topics, tenant_id, priority, window)
    # What stands behind may be out of order: a topic may have more than was fetched of it.
    return sorted(found, key=_order(scope))[:window]


def _order(scope: Scope) -> Callable[[Candidate], tuple[int, datetime, str]]:
    step = scope.policy.ageing
    if step is None:
        return lambda each: (-each.priority, each.created_at, each.id)
    now = scope.now
    return lambda each: (-each.priority - (now - each.created_at) // step, each.created_at, each.id)


@dataclass(frozen=True, slots=True)
class Holder:
    """The task that has the key."""

    id: TaskId
    status: Status
    expires_at: datetime | None
    created_at: datetime


def keeps_out(holder: Holder, dedupe: Deduping, now: datetime) -> bool:
    """Whether the first task still keeps a second one out."""
    match dedupe:
        case Dedupe.FOREVER:
            return True
        case Dedupe.WHILE_OPEN:
            expired = holder.expires_at is not None and holder.expires_at <= now
            # A worker that has begun goes on, however late it is.
            return holder.status is Status.LEASED or (holder.status in OPEN and not expired)
        case timedelta():
            return holder.created_at + dedupe > now
        case _:
            assert_never(dedupe)


def key_order(task: NewTask) -> tuple[str, str, str]:
    """The order in which tasks are written: the same in every call, so that none wait crosswise."""
    return task.tenant_id, task.dedupe_key or "", task.id
