"""Tasks in memory, with the same rules as on a database."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from penstock.errors import UnusableConnection
from penstock.tasks.errors import DuplicateTask, InvalidTask, LeaseLost, TaskNotFound
from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy, StoreOptions, Wish
from penstock.tasks.stores.memory_table import MemoryReader, Table, new_row, restored, still_ahead
from penstock.tasks.stores.store_rules import (
    Chore,
    Holder,
    Locked,
    Room,
    Scope,
    Turn,
    candidates,
    keeps_out,
    lease_ended,
    sorted_out,
)
from penstock.tasks.task import (
    FIRE_PREFIX,
    FIRE_REMEMBERED,
    OPEN,
    Attempt,
    AttemptLogFailure,
    DeadTask,
    Finding,
    Lease,
    NewTask,
    Replayed,
    Stats,
    Status,
    Task,
    TaskId,
    storable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_MICROSECOND = timedelta(microseconds=1)


class MemoryTaskStore:
    """A task store that forgets everything; for one process and one event loop."""

    wakes = True

    def __init__(self, options: StoreOptions | None = None) -> None:
        self.options = options or StoreOptions()
        self._table = Table()
        self._dlq: dict[int, DeadTask] = {}
        self._attempts: list[Attempt] = []
        self._results: dict[TaskId, bytes] = {}
        self._numbers = itertools.count(1)
        self._shift = timedelta(0)
        self._turn = Turn()
        self._lock = asyncio.Lock()
        self._came = asyncio.Event()

    async def open(self) -> Self:
        return self

    async def close(self) -> None:
        """Nothing is held."""

    async def create_tables(self) -> None:
        """They are always there."""

    async def check(self) -> list[Finding]:
        return [Finding("memory", ok=True, detail="gone when the process ends")]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def shift_clock(self, by: timedelta) -> None:
        self._shift += by

    async def now(self) -> datetime:
        return self._now()

    def _now(self) -> datetime:
        return datetime.now(UTC) + self._shift

    def _bury(self, task_id: TaskId, reason: str, now: datetime) -> None:
        task = self._table.change(
            task_id,
            status=Status.DEAD,
            last_error=reason,
            last_error_at=now,
            lease_owner=None,
            lease_until=None,
            updated_at=now,
        )
        number = next(self._numbers)
        self._dlq[number] = DeadTask(
            number, task.id, task.topic, task.tenant_id, task.payload, task.meta, reason, now
        )

    def _log(self, lease: Lease, reason: str | None, *, success: bool) -> None:
        if not self.options.attempt_log:
            return
        try:
            self._attempts.append(
                Attempt(
                    lease.task_id, lease.attempt, reason, lease.started_at, self._now(), success
                )
            )
        except Exception as problem:  # noqa: BLE001 - as in the other stores
            self.options.tell_of_log_failure(
                AttemptLogFailure(lease.task_id, lease.attempt, problem)
            )

    def _dead(self, topic: str | None, tenant_id: str | None) -> list[DeadTask]:
        return [
            each
            for each in self._dlq.values()
            if topic in (None, each.topic) and tenant_id in (None, each.tenant_id)
        ]

    async def wait(self, at_most: timedelta) -> bool:
        try:
            async with asyncio.timeout(at_most.total_seconds()):
                await self._came.wait()
        except TimeoutError:
            return False
        # Cleared only now: what came since the last look must not be slept through.
        self._came.clear()
        return True

    # Insert: all of a batch or none

    async def insert(self, task: NewTask, *, connection: Any = None) -> TaskId:
        [task_id] = await self.insert_many([task], connection=connection)
        return task_id

    async def insert_many(
        self, tasks: Sequence[NewTask], *, skip_duplicates: bool = False, connection: Any = None
    ) -> list[TaskId]:
        if connection is not None:
            raise UnusableConnection("the store in memory takes part in no transaction")
        async with self._lock:
            before = dict(self._table.tasks)
            try:
                found = self._insert(tasks, skip_duplicates=skip_duplicates)
            except BaseException:
                self._table.tasks = before
                raise
        self._came.set()
        return found

    def _insert(self, tasks: Sequence[NewTask], *, skip_duplicates: bool) -> list[TaskId]:
        now, found = self._now(), []
        for number, task in enumerate(tasks):
            created_at = now + number * _MICROSECOND
            try:
                self._make_room(task, now)
            except DuplicateTask as duplicate:
                if not skip_duplicates:
                    raise
                found.append(TaskId(duplicate.task_id))
                continue
            self._table.tasks[task.id] = new_row(task, created_at)
            found.append(task.id)
        return found

    def _make_room(self, task: NewTask, now: datetime) -> None:
        if task.id in self._table.tasks:
            raise DuplicateTask(task.id, tenant_id=task.tenant_id, dedupe_key=None)
        held = self._table.with_key(task.tenant_id, task.dedupe_key)
        if held is None:
            return
        holder = Holder(held.id, held.status, held.expires_at, held.created_at)
        if keeps_out(holder, task.dedupe, now):
            raise DuplicateTask(held.id, tenant_id=task.tenant_id, dedupe_key=task.dedupe_key)
        self._table.change(held.id, dedupe_key=None)

    # Reserve: chores first, then what the wish is for

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
        wish = Wish(owner, topics, tenant_id, limit, lease, policy)
        if wish.empty:
            return []
        async with self._lock:
            return await self._reserve(wish)

    async def _reserve(self, wish: Wish) -> list[Task]:
        now = self._now()
        self._do_chores(now)
        reader = MemoryReader(self._table, now)
        wanted = await reader.topics() if wish.topics is None else list(dict.fromkeys(wish.topics))
        room = self._running(wish.policy)
        open_topics = tuple(topic for topic in wanted if not room.topic_full(topic))
        scope = Scope(open_topics, wish.tenant_id, wish.policy, now)
        taken: list[Task] = []
        async for each in candidates(reader, scope, room, self._turn, wish.limit):
            if not room.admits(each):
                continue
            room.count(each.topic, each.tenant_id)
            self._turn.give(each.tenant_id)
            taken.append(self._lease(each.id, wish.owner, now, now + wish.lease))
            if len(taken) == wish.limit:
                break
        return taken

    def _lease(self, task_id: TaskId, owner: str, now: datetime, until: datetime) -> Task:
        return self._table.change(
            task_id,
            status=Status.LEASED,
            lease_owner=owner,
            lease_until=until,
            attempts=self._table.tasks[task_id].attempts + 1,
            updated_at=now,
        )

    def _running(self, policy: Policy) -> Room:
        room = Room(policy)
        for task in self._table.tasks.values():
            if task.status is Status.LEASED:
                room.count(task.topic, task.tenant_id)
        return room

    def _do_chores(self, now: datetime) -> None:
        for chore, found in sorted_out(self._table.locked(), now).items():
            for each in found:
                self._do(chore, each, now)

    def _do(self, chore: Chore, each: Locked, now: datetime) -> None:
        no_lease = {"lease_owner": None, "lease_until": None, "updated_at": now}
        match chore:
            case Chore.READY:
                self._table.change(each.id, available_at=each.created_at)
            case Chore.EXPIRE:
                self._table.change(each.id, status=Status.EXPIRED, **no_lease)
            case Chore.REQUEUE:
                self._table.change(
                    each.id,
                    status=Status.QUEUED,
                    available_at=each.created_at,
                    last_error=lease_ended(each),
                    last_error_at=now,
                    **no_lease,
                )
            case Chore.BURY:
                self._bury(each.id, lease_ended(each), now)
        if each.status is Status.LEASED:
            assert each.lease_until is not None
            ended = Lease(
                each.id, each.lease_owner or "", each.attempts, each.lease_until, each.updated_at
            )
            self._log(ended, lease_ended(each), success=False)

    # Ack, release, burial, extension: each fenced by owner, attempt and time

    def _held(self, lease: Lease) -> Task:
        task = self._table.tasks.get(lease.task_id)
        if (
            task is None
            or task.status is not Status.LEASED
            or (task.lease_owner, task.attempts) != (lease.owner, lease.attempt)
            or task.lease_until is None
            or task.lease_until <= self._now()
        ):
            raise LeaseLost(lease.task_id)
        return task

    async def ack(self, lease: Lease, *, result: bytes | None = None) -> None:
        self._held(lease)
        self._table.change(
            lease.task_id,
            status=Status.DONE,
            lease_owner=None,
            lease_until=None,
            updated_at=self._now(),
        )
        if result is not None:
            self._results[lease.task_id] = result
        self._log(lease, None, success=True)

    async def release(
        self,
        lease: Lease,
        *,
        delay: timedelta | None = None,
        reason: str | None = None,
        counts: bool = True,
    ) -> Status:
        task, now, reason = self._held(lease), self._now(), storable(reason)
        self._log(lease, reason or "released", success=False)
        if counts and task.attempts >= task.max_attempts:
            last = reason or f"released after its last attempt, number {lease.attempt}"
            self._bury(task.id, last, now)
            return Status.DEAD
        self._table.change(
            task.id,
            status=Status.QUEUED,
            available_at=now + delay if delay else task.created_at,
            lease_owner=None,
            lease_until=None,
            max_attempts=task.max_attempts + (0 if counts else 1),
            last_error=task.last_error if reason is None else reason,
            last_error_at=task.last_error_at if reason is None else now,
            updated_at=now,
        )
        self._came.set()
        return Status.QUEUED

    async def move_to_dlq(self, lease: Lease, reason: str) -> None:
        words = storable(reason) or "no reason was given"
        self._bury(self._held(lease).id, words, self._now())
        self._log(lease, words, success=False)

    async def extend_lease(self, lease: Lease, by: timedelta = DEFAULT_LEASE) -> Lease:
        if by <= timedelta(0):
            raise InvalidTask(f"a lease can't be extended by {by}: a positive time is needed")
        task = self._held(lease)
        assert task.lease_until is not None
        until = max(task.lease_until, self._now() + by)
        self._table.change(task.id, lease_until=until)
        return Lease(lease.task_id, lease.owner, lease.attempt, until, lease.started_at)

    # Tasks changed from outside: cancelled, retried, replayed, purged

    async def cancel(self, task_id: TaskId, reason: str = "cancelled") -> bool:
        task, now = self._known(task_id), self._now()
        if task.status not in OPEN:
            return False
        self._table.change(
            task_id,
            status=Status.DEAD,
            lease_owner=None,
            lease_until=None,
            last_error=storable(reason),
            last_error_at=now,
            updated_at=now,
        )
        return True

    async def retry(self, task_id: TaskId) -> bool:
        task, now = self._known(task_id), self._now()
        if task.status in (Status.LEASED, Status.DONE):
            return False
        self._dlq = {n: each for n, each in self._dlq.items() if each.task_id != task_id}
        self._table.change(
            task_id,
            status=Status.QUEUED,
            attempts=0,
            available_at=task.created_at,
            expires_at=still_ahead(task.expires_at, now),
            updated_at=now,
        )
        self._came.set()
        return True

    def _known(self, task_id: TaskId) -> Task:
        if task_id not in self._table.tasks:
            raise TaskNotFound(f"there is no task {task_id}")
        return self._table.tasks[task_id]

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
        now = self._now()
        until = available_at or (now + delay if delay else None)
        replayed = 0
        for letter in self._dead(topic, tenant_id):
            if limit is not None and replayed == limit:
                break
            task = self._table.tasks.get(letter.task_id)
            if task is None:
                self._table.tasks[letter.task_id] = restored(letter, now)
            elif task.status is not Status.DEAD:
                continue
            self._replay(letter.task_id, now, until, reset_attempts=reset_attempts)
            del self._dlq[letter.number]
            replayed += 1
        self._came.set()
        return Replayed(replayed, len(self._dead(topic, tenant_id)))

    def _replay(
        self, task_id: TaskId, now: datetime, until: datetime | None, *, reset_attempts: bool
    ) -> None:
        task = self._table.tasks[task_id]
        kept = max(task.max_attempts, task.attempts + 1)
        self._table.change(
            task_id,
            status=Status.QUEUED,
            attempts=0 if reset_attempts else task.attempts,
            max_attempts=task.max_attempts if reset_attempts else kept,
            available_at=max(until, task.created_at) if until else task.created_at,
            expires_at=still_ahead(task.expires_at, now),
            updated_at=now,
        )

    async def purge(
        self, older_than: timedelta, *, statuses: Sequence[Status] = (Status.DONE,)
    ) -> int:
        if any(status in OPEN for status in statuses):
            raise InvalidTask("only done, dead and expired tasks can be purged; cancel the others")
        now = self._now()
        old = [
            task.id
            for task in self._table.tasks.values()
            if task.status in statuses
            and task.dedupe_key is None
            and task.updated_at <= now - older_than
            # The id of a schedule's fire must stay taken for as long as a worker may look back.
            and not (task.id.startswith(FIRE_PREFIX) and task.created_at > now - FIRE_REMEMBERED)
        ]
        for task_id in old:
            del self._table.tasks[task_id]
        return len(old)

    # Reads

    async def get(self, task_id: TaskId) -> Task | None:
        return self._table.tasks.get(task_id)

    async def result(self, task_id: TaskId) -> bytes | None:
        return self._results.get(task_id)

    async def list_tasks(
        self,
        *,
        status: Status | None = None,
        topic: str | None = None,
        tenant_id: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        found = [
            task for task in self._table.matching(topic, tenant_id) if status in (None, task.status)
        ]
        return sorted(found, key=lambda task: (task.created_at, task.id), reverse=True)[:limit]

    async def list_dlq(
        self, *, topic: str | None = None, tenant_id: str | None = None, limit: int = 100
    ) -> list[DeadTask]:
        return self._dead(topic, tenant_id)[:limit]

    async def attempts(self, task_id: TaskId) -> list[Attempt]:
        found = [each for each in self._attempts if each.task_id == task_id]
        return sorted(found, key=lambda each: each.attempt_no)

    async def stats(self, *, topic: str | None = None, tenant_id: str | None = None) -> Stats:
        counts = {status.value: 0 for status in Status}
        for task in self._table.matching(topic, tenant_id):
            counts[task.status.value] += 1
        return Stats(**counts)
