"""What PostgreSQL and MySQL share: every operation of a store, in terms of named statements."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.tasks.errors import DuplicateTask, InvalidTask, LeaseLost, TaskExpired, TaskNotFound
from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy, StoreOptions, Wish
from penstock.tasks.stores import sql_reserve as reserves
from penstock.tasks.stores import sql_rows as rows
from penstock.tasks.stores.sql_statements import Dialect, Parameters, Session
from penstock.tasks.stores.store_rules import (
    Holder,
    Locked,
    Scope,
    Turn,
    keeps_out,
    key_order,
    lease_ended,
)
from penstock.tasks.task import (
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

T = TypeVar("T")
Work = Callable[[Session], Awaitable[T]]

_PURGED_AT_ONCE = 1000
_REPLAYED_AT_ONCE = 200


class SqlTaskStore(ABC):
    """A task store on a database; see `TaskStore` for what each method promises."""

    wakes = False
    _dialect: Dialect

    def __init__(self, options: StoreOptions | None = None) -> None:
        self.options = options or StoreOptions()
        self._shift = timedelta(0)
        self._turn = Turn()

    # What each database does its own way

    @abstractmethod
    async def open(self) -> Self:
        """Connect, and check that the server and its tables can be used."""

    @abstractmethod
    async def close(self) -> None:
        """Give every connection back."""

    @abstractmethod
    async def create_tables(self) -> None:
        """Make the tables and indexes that are missing."""

    @abstractmethod
    async def check(self) -> list[Finding]:
        """What is good about server and tables, and what should be improved."""

    @abstractmethod
    async def _atomically(self, work: Work[T], *, capped: bool = False, lasting: bool = False) -> T:
        """Run work in a transaction, and repeat it where that may help.

        `capped`: one at a time.  `lasting`: its statements take the longer the more there is.
        """

    @abstractmethod
    async def _directly(self, work: Work[T]) -> T:
        """Run work whose statements are each a transaction, and repeat it where that may help."""

    @abstractmethod
    async def _insert_rows(self, session: Session, tasks: Sequence[NewTask]) -> set[TaskId]:
        """Insert what does not collide, and say which those are."""

    @abstractmethod
    async def _insert_foreign(
        self, connection: Any, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        """Insert in the transaction that is open on the caller's connection."""

    @abstractmethod
    async def _purge_some(self, session: Session, parameters: Parameters) -> int:
        """Delete up to `limit` old tasks, and say how many."""

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # Clock

    def shift_clock(self, by: timedelta) -> None:
        self._shift += by

    async def now(self) -> datetime:
        return await self._directly(self._read_clock)

    async def _read_clock(self, session: Session) -> datetime:
        [row] = await session.rows(self._dialect["now"], self._timed())
        return rows.sure(row[0])

    def _timed(self, **parameters: Any) -> Parameters:
        return {**parameters, "shift": self._dialect.duration(self._shift)}

    async def wait(self, at_most: timedelta) -> bool:
        await asyncio.sleep(at_most.total_seconds())
        return False

    # Insert: all of a batch or none

    async def insert(self, task: NewTask, *, connection: Any = None) -> TaskId:
        [task_id] = await self.insert_many([task], connection=connection)
        return task_id

    async def insert_many(
        self, tasks: Sequence[NewTask], *, skip_duplicates: bool = False, connection: Any = None
    ) -> list[TaskId]:
        if not tasks:
            return []
        if connection is not None:
            return await self._insert_foreign(connection, tasks, skip_duplicates=skip_duplicates)

        async def work(session: Session) -> list[TaskId]:
            return await self._insert(session, tasks, skip_duplicates=skip_duplicates)

        return await self._atomically(work)

    async def _insert(
        self, session: Session, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        """The id under which each task is stored; those that collided are inserted one by one."""
        if any(task.expires_at is not None or _is_past(task.expires_in) for task in tasks):
            _refuse_expired(tasks, await self._read_clock(session))
        inserted = await self._insert_rows(session, tasks)
        found: dict[int, TaskId] = {}
        collided: list[int] = []
        for number, task in enumerate(tasks):
            if task.id in inserted:
                inserted.discard(task.id)
                found[number] = task.id
            else:
                collided.append(number)
        for number in sorted(collided, key=lambda each: key_order(tasks[each])):
            try:
                found[number] = await self._insert_collided(session, tasks[number])
            except DuplicateTask as duplicate:
                if not skip_duplicates:
                    raise
                found[number] = TaskId(duplicate.task_id)
        return [found[number] for number in range(len(tasks))]

    async def _insert_collided(self, session: Session, task: NewTask) -> TaskId:
        """Insert a task whose id or dedupe key is taken, once its holder may give the key away."""
        while True:
            # Most holders keep the task out for good, and need not be locked to see it.
            holder = await self._admitted(session, task, lock=False)
            if isinstance(holder, str):
                return holder
            if holder is not None:
                holder = await self._admitted(session, task, lock=True)
                if isinstance(holder, str):
                    return holder
            if holder is not None:
                await session.run(self._dialect["free_key"], {"id": holder.id})
            if await self._insert_rows(session, [task]):
                return task.id

    async def _admitted(
        self, session: Session, task: NewTask, *, lock: bool
    ) -> Holder | TaskId | None:
        """The holder that must give its key away, or the id of the task if it is stored already."""
        found = await self._holder(session, task, lock=lock)
        if found is None:
            return None
        holder, now = found
        if holder.id == task.id:
            if session.outcome_unknown:
                # The answer to an earlier try was lost: this is that try's own row.
                return task.id
            raise DuplicateTask(task.id, tenant_id=task.tenant_id, dedupe_key=None)
        if keeps_out(holder, task.dedupe, now):
            raise DuplicateTask(holder.id, tenant_id=task.tenant_id, dedupe_key=task.dedupe_key)
        return holder

    async def _holder(
        self, session: Session, task: NewTask, *, lock: bool
    ) -> tuple[Holder, datetime] | None:
        # Its own id first: when that is taken, nothing else matters.
        for name, parameters in (
            ("holder_by_id", self._timed(id=task.id)),
            ("holder_by_key", self._timed(tenant_id=task.tenant_id, dedupe_key=task.dedupe_key)),
        ):
            sql = self._dialect[name] + (" for update" if lock else "")
            found = await session.rows(sql, parameters)
            if found:
                task_id, status, expires_at, created_at, now = found[0]
                return Holder(
                    TaskId(task_id), Status(status), rows.moment(expires_at), rows.sure(created_at)
                ), rows.sure(now)
        return None

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

        async def work(session: Session) -> tuple[list[Task], list[Locked]]:
            return await self._reserve(session, wish)

        taken, ended = await self._run_reserve(work, wish)
        for each in ended:
            await self._log_attempt(_lease_of(each), lease_ended(each), success=False)
        return taken

    async def _run_reserve(self, work: Work[T], wish: Wish) -> T:
        return await self._atomically(work, capped=wish.policy.capped)

    async def _reserve(self, session: Session, wish: Wish) -> tuple[list[Task], list[Locked]]:
        dialect = self._dialect
        now, ids = await reserves.look(session, dialect, self._shift)
        ended = await reserves.do_chores(session, dialect, ids, now)
        wanted = await self._wanted_topics(session, wish.topics)
        room = await reserves.running(session, dialect, wish.policy)
        open_topics = tuple(topic for topic in wanted if not room.topic_full(topic))
        if not open_topics:
            return [], ended
        scope = Scope(open_topics, wish.tenant_id, wish.policy, now)
        taker = reserves.Taker(session, dialect, wish.owner, now + wish.lease, now)
        return await taker.take(scope, room, self._turn, wish.limit), ended

    async def _wanted_topics(self, session: Session, topics: Sequence[str] | None) -> list[str]:
        if topics is not None:
            return list(dict.fromkeys(topics))
        return await self._dialect.topics(session)

    # Ack, release, burial, extension: each fenced by owner, attempt and time

    async def ack(self, lease: Lease, *, result: bytes | None = None) -> None:
        parameters = self._timed(**_fence(lease))

        async def work(session: Session) -> bool:
            found = await session.run(self._dialect["ack"], parameters)
            if not found:
                return await self._was_done(session, lease)
            if result is not None:
                await session.run(self._dialect["save_result"], {**parameters, "result": result})
            return True

        acked = await (self._directly(work) if result is None else self._atomically(work))
        if not acked:
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, None, success=True)

    async def _was_done(self, session: Session, lease: Lease) -> bool:
        """After a lost answer, look at the task: no other worker can have acked this attempt."""
        if not session.outcome_unknown:
            return False
        found = await session.rows(self._dialect["standing"], self._timed(id=lease.task_id))
        return bool(found) and found[0][:2] == (Status.DONE, lease.attempt)

    async def release(
        self,
        lease: Lease,
        *,
        delay: timedelta | None = None,
        reason: str | None = None,
        counts: bool = True,
    ) -> Status:
        reason = storable(reason)

        async def work(session: Session) -> Status | None:
            held = await self._held(session, lease)
            if held is None:
                return await self._was_given_back(session, lease)
            max_attempts, now = held
            if counts and lease.attempt >= max_attempts:
                last = reason or f"released after its last attempt, number {lease.attempt}"
                await reserves.bury(session, self._dialect, [lease.task_id], last, now)
                return Status.DEAD
            until = now + delay if delay else None
            await session.run(
                self._dialect["release"],
                {
                    "id": lease.task_id,
                    "until": rows.stored(until),
                    "allowed": 0 if counts else 1,
                    "reason": reason,
                    "now": rows.stored(now),
                },
            )
            return Status.QUEUED

        status = await self._atomically(work)
        if status is None:
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, reason or "released", success=False)
        return status

    async def _held(self, session: Session, lease: Lease) -> tuple[int, datetime] | None:
        """Lock the task if the lease still holds it: its last attempt, and the time."""
        found = await session.rows(self._dialect["held"], self._timed(**_fence(lease)))
        return (found[0][1], rows.sure(found[0][2])) if found else None

    async def _was_given_back(self, session: Session, lease: Lease) -> Status | None:
        if not session.outcome_unknown:
            return None
        found = await session.rows(self._dialect["standing"], self._timed(id=lease.task_id))
        if not found or found[0][1] != lease.attempt:
            return None
        status = Status(found[0][0])
        return status if status in (Status.QUEUED, Status.DEAD) else None

    async def move_to_dlq(self, lease: Lease, reason: str) -> None:
        words = storable(reason) or "no reason was given"

        async def work(session: Session) -> bool:
            held = await self._held(session, lease)
            if held is None:
                return await self._was_given_back(session, lease) is Status.DEAD
            await reserves.bury(session, self._dialect, [lease.task_id], words, held[1])
            return True

        if not await self._atomically(work):
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, words, success=False)

    async def extend_lease(self, lease: Lease, by: timedelta = DEFAULT_LEASE) -> Lease:
        if by <= timedelta(0):
            raise InvalidTask(f"a lease can't be extended by {by}: a positive time is needed")
        parameters = self._timed(**_fence(lease), by=self._dialect.duration(by))

        async def work(session: Session) -> datetime | None:
            if not await session.run(self._dialect["extend"], parameters):
                return None
            [row] = await session.rows(self._dialect["lease_until"], {"id": lease.task_id})
            return rows.sure(row[0])

        until = await self._atomically(work)
        if until is None:
            raise LeaseLost(lease.task_id)
        return Lease(lease.task_id, lease.owner, lease.attempt, until, lease.started_at)

    # The attempt log: written after an attempt, on its own; its failure changes no outcome

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

        async def work(session: Session) -> int:
            return await session.run(self._dialect["log_attempt"], parameters)

        try:
            async with asyncio.timeout(self.options.attempt_log_timeout.total_seconds()):
                await self._directly(work)
        except Exception as problem:  # noqa: BLE001 - whatever it is, the ack stands
            self.options.tell_of_log_failure(
                AttemptLogFailure(lease.task_id, lease.attempt, problem)
            )

    # Tasks changed from outside: cancelled, retried, replayed, purged

    async def cancel(self, task_id: TaskId, reason: str = "cancelled") -> bool:
        async def work(session: Session) -> bool:
            status, now = await self._standing(session, task_id)
            if status not in OPEN:
                return False
            await session.run(
                self._dialect["cancel"],
                {"id": task_id, "reason": storable(reason), "now": rows.stored(now)},
            )
            return True

        return await self._atomically(work)

    async def retry(self, task_id: TaskId) -> bool:
        async def work(session: Session) -> bool:
            status, now = await self._standing(session, task_id)
            if status in (Status.LEASED, Status.DONE):
                return False
            await session.run(self._dialect["forget_dead"], {"id": task_id})
            await session.run(self._dialect["revive"], {"id": task_id, "now": rows.stored(now)})
            return True

        return await self._atomically(work)

    async def _standing(self, session: Session, task_id: TaskId) -> tuple[Status, datetime]:
        found = await session.rows(self._dialect["standing"], self._timed(id=task_id))
        if not found:
            raise TaskNotFound(f"there is no task {task_id}")
        return Status(found[0][0]), rows.sure(found[0][3])

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
        replayed, after = 0, 0
        while limit is None or replayed < limit:
            left = _REPLAYED_AT_ONCE if limit is None else limit - replayed
            at_once = min(left, _REPLAYED_AT_ONCE)
            asked = {"after": after, "topic": topic, "tenant_id": tenant_id, "limit": at_once}

            async def work(session: Session, asked: Parameters = asked) -> tuple[int, int | None]:
                letters = await session.rows(self._dialect["oldest_dlq"], asked)
                if not letters:
                    return 0, None
                now = await self._read_clock(session)
                until = available_at or (now + delay if delay else None)
                times = {"now": rows.stored(now), "until": rows.stored(until)}
                moved = await self._replay(session, letters, times, reset_attempts=reset_attempts)
                return moved, letters[-1][0]

            count, last = await self._atomically(work, lasting=True)
            replayed += count
            if last is None:
                break
            after = last
        [row] = await self._read("count_dlq", topic=topic, tenant_id=tenant_id)
        return Replayed(replayed, int(row[0]))

    async def _replay(
        self, session: Session, letters: list[Any], times: Parameters, *, reset_attempts: bool
    ) -> int:
        """Move letters back among the tasks.  One whose task is open again is left."""
        dialect = self._dialect
        ids = sorted({task_id for _, task_id in letters})
        found = await session.rows(dialect["standings"], self._timed(ids=ids))
        standing = {row[0]: row[1] for row in found}
        dead = {task_id for task_id, status in standing.items() if status == Status.DEAD}
        # The number of a letter for each task whose row is gone.
        gone = {task_id: number for number, task_id in letters if task_id not in standing}
        if dead:
            await session.run(
                dialect["replay"], {**times, "ids": sorted(dead), "reset": reset_attempts}
            )
        if gone:
            await session.run(dialect["restore"], {**times, "numbers": sorted(gone.values())})
        moved = {number for number, task_id in letters if task_id in dead or task_id in gone}
        if moved:
            await session.run(dialect["drop_dlq"], {"numbers": sorted(moved)})
        return len(moved)

    async def purge(
        self, older_than: timedelta, *, statuses: Sequence[Status] = (Status.DONE,)
    ) -> int:
        if any(status in OPEN for status in statuses):
            raise InvalidTask("only done, dead and expired tasks can be purged; cancel the others")
        purged = 0
        parameters = self._timed(
            older_than=self._dialect.duration(older_than),
            remembered=self._dialect.duration(FIRE_REMEMBERED),
            statuses=[status.value for status in statuses],
            limit=_PURGED_AT_ONCE,
        )

        async def work(session: Session) -> int:
            return await self._purge_some(session, parameters)

        while True:
            count = await self._atomically(work, lasting=True)
            purged += count
            if count < _PURGED_AT_ONCE:
                return purged

    # Reads, each a single statement

    async def _read(self, name: str, **parameters: Any) -> list[Any]:
        async def work(session: Session) -> list[Any]:
            return await session.rows(self._dialect[name], parameters)

        return await self._directly(work)

    async def get(self, task_id: TaskId) -> Task | None:
        found = await self._read("by_ids", ids=[task_id])
        return rows.task(found[0]) if found else None

    async def result(self, task_id: TaskId) -> bytes | None:
        found = await self._read("result", id=task_id)
        return bytes(found[0][0]) if found else None

    async def list_tasks(
        self,
        *,
        status: Status | None = None,
        topic: str | None = None,
        tenant_id: str | None = None,
        limit: int = 100,
    ) -> list[Task]:
        found = await self._read(
            "list_tasks", status=status, topic=topic, tenant_id=tenant_id, limit=limit
        )
        return [rows.task(row) for row in found]

    async def list_dlq(
        self, *, topic: str | None = None, tenant_id: str | None = None, limit: int = 100
    ) -> list[DeadTask]:
        found = await self._read("list_dlq", topic=topic, tenant_id=tenant_id, limit=limit)
        return [rows.dead_task(row) for row in found]

    async def attempts(self, task_id: TaskId) -> list[Attempt]:
        return [rows.attempt(row) for row in await self._read("attempts", id=task_id)]

    async def stats(self, *, topic: str | None = None, tenant_id: str | None = None) -> Stats:
        found = await self._read("stats", topic=topic, tenant_id=tenant_id)
        return Stats(**{Status(status).value: int(count) for status, count in found})


def _fence(lease: Lease) -> Parameters:
    return {"id": lease.task_id, "owner": lease.owner, "attempt": lease.attempt}


def _lease_of(ended: Locked) -> Lease:
    assert ended.lease_until is not None
    return Lease(
        ended.id, ended.lease_owner or "", ended.attempts, ended.lease_until, ended.updated_at
    )


def _is_past(duration: timedelta | None) -> bool:
    return duration is not None and duration <= timedelta(0)


def _refuse_expired(tasks: Sequence[NewTask], now: datetime) -> None:
    for task in tasks:
        expires_at = now + task.expires_in if task.expires_in is not None else task.expires_at
        if expires_at is not None and expires_at <= now:
            raise TaskExpired(
                f"task {task.id} expires at {expires_at.isoformat()}, and the database's clock "
                f"says {now.isoformat()}: give it more time"
            )
