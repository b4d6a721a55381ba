"""What PostgreSQL and MySQL share: every operation of a store, in terms of named statements."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.tasks import deduping, reserving, rows
from penstock.tasks.choosing import Scope, Turn
from penstock.tasks.chores import Locked, lease_ended
from penstock.tasks.errors import InvalidTask, LeaseLost, TaskExpired, TaskNotFound
from penstock.tasks.options import DEFAULT_LEASE, PLAIN, Policy, StoreOptions, Wish
from penstock.tasks.replaying import Replay, replay_some
from penstock.tasks.retrying import Try
from penstock.tasks.sql import Parameters, Session
from penstock.tasks.task import (
    OPEN,
    Attempt,
    AttemptLogFailure,
    DeadTask,
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
    from types import TracebackType

    from penstock.tasks.health import Finding

T = TypeVar("T")
Work = Callable[[Session, Try], Awaitable[T]]
_PURGED_AT_ONCE = 1000


class SqlTaskStore(ABC):
    """A task store on a database; see `TaskStore` for what each method promises."""

    wakes = False
    _dialect: reserving.Dialect

    def __init__(self, options: StoreOptions | None = None) -> None:
        self.options = options or StoreOptions()
        self._shift = timedelta(0)
        self._turn = Turn()

    # What each database does its own way.

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
    async def _atomically(self, work: Work[T], *, capped: bool = False) -> T:
        """Run work in a transaction, again and again if need be."""

    @abstractmethod
    async def _directly(self, work: Work[T]) -> T:
        """Run a single statement, which is its own transaction."""

    @abstractmethod
    async def _insert_rows(self, session: Session, tasks: Sequence[NewTask]) -> set[TaskId]:
        """Insert what does not collide, and say which those are."""

    @abstractmethod
    async def _insert_foreign(
        self, connection: Any, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        """Insert in the transaction that is open on somebody else's connection."""

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

    async def _read_clock(self, session: Session, _: Try) -> datetime:
        [row] = await session.rows(self._dialect["now"], self._timed())
        return rows.sure(row[0])

    def _timed(self, **parameters: Any) -> Parameters:
        return {**parameters, "shift": self._dialect.duration(self._shift)}

    # Insert

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

        async def work(session: Session, attempt: Try) -> list[TaskId]:
            return await self._insert(session, attempt, tasks, skip_duplicates=skip_duplicates)

        return await self._atomically(work)

    async def _insert(
        self, session: Session, attempt: Try, tasks: Sequence[NewTask], *, skip_duplicates: bool
    ) -> list[TaskId]:
        if any(task.expires_at is not None or _is_past(task.expires_in) for task in tasks):
            self._refuse_expired(tasks, await self._read_clock(session, attempt))
        inserted = await self._insert_rows(session, tasks)
        return await deduping.resolve(
            deduping.Inserting(self._dialect, session, self._timed(), attempt, self._insert_rows),
            tasks,
            inserted,
            skip_duplicates=skip_duplicates,
        )

    @staticmethod
    def _refuse_expired(tasks: Sequence[NewTask], now: datetime) -> None:
        for task in tasks:
            expires_at = now + task.expires_in if task.expires_in is not None else task.expires_at
            if expires_at is not None and expires_at <= now:
                raise TaskExpired(
                    f"task {task.id} expires at {expires_at.isoformat()}, and the database's clock "
                    f"says {now.isoformat()}: give it more time"
                )

    # Reserve

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

        async def work(session: Session, _: Try) -> tuple[list[Task], list[Locked]]:
            return await self._reserve(session, wish)

        taken, ended = await self._run_reserve(work, wish)
        await self._log_ended(ended)
        return taken

    async def _run_reserve(self, work: Work[T], wish: Wish) -> T:
        return await self._atomically(work, capped=wish.policy.capped)

    async def _reserve(self, session: Session, wish: Wish) -> tuple[list[Task], list[Locked]]:
        dialect = self._dialect
        now, ids = await reserving.look(session, dialect, self._shift)
        ended = await reserving.do_chores(session, dialect, ids, now)
        wanted = await self._wanted_topics(session, wish.topics, now)
        room = await reserving.running(session, dialect, wish.policy)
        open_topics = tuple(topic for topic in wanted if not room.topic_full(topic))
        if not open_topics:
            return [], ended
        scope = Scope(open_topics, wish.tenant_id, wish.policy, now)
        taker = reserving.Taker(session, dialect, wish.owner, now + wish.lease, now)
        return await taker.take(scope, room, self._turn, wish.limit), ended

    async def _wanted_topics(
        self, session: Session, topics: Sequence[str] | None, now: datetime
    ) -> list[str]:
        if topics is not None:
            return list(dict.fromkeys(topics))
        return await reserving.SqlReader(session, self._dialect, now).topics()

    # What becomes of a reserved task

    async def ack(self, lease: Lease, *, result: bytes | None = None) -> None:
        parameters = self._timed(**_fence(lease))

        async def work(session: Session, attempt: Try) -> bool:
            found = await session.run(self._dialect["ack"], parameters)
            if not found:
                return await self._was_done(session, attempt, lease)
            if result is not None:
                await session.run(self._dialect["save_result"], {**parameters, "result": result})
            return True

        acked = await (self._directly(work) if result is None else self._atomically(work))
        if not acked:
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, None, success=True)

    async def _was_done(self, session: Session, attempt: Try, lease: Lease) -> bool:
        """An answer was lost, so look: nobody else can have acked this attempt."""
        if not attempt.outcome_unknown:
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

        async def work(session: Session, attempt: Try) -> Status | None:
            held = await self._held(session, lease)
            if held is None:
                return await self._was_given_back(session, attempt, lease)
            max_attempts, now = held
            if counts and lease.attempt >= max_attempts:
                last = reason or f"released after its last attempt, number {lease.attempt}"
                await reserving.bury(session, self._dialect, [lease.task_id], last, now)
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

    async def _was_given_back(self, session: Session, attempt: Try, lease: Lease) -> Status | None:
        if not attempt.outcome_unknown:
            return None
        found = await session.rows(self._dialect["standing"], self._timed(id=lease.task_id))
        if not found or found[0][1] != lease.attempt:
            return None
        status = Status(found[0][0])
        return status if status in (Status.QUEUED, Status.DEAD) else None

    async def move_to_dlq(self, lease: Lease, reason: str) -> None:
        words = storable(reason) or "no reason was given"

        async def work(session: Session, attempt: Try) -> bool:
            held = await self._held(session, lease)
            if held is None:
                return await self._was_given_back(session, attempt, lease) is Status.DEAD
            await reserving.bury(session, self._dialect, [lease.task_id], words, held[1])
            return True

        if not await self._atomically(work):
            raise LeaseLost(lease.task_id)
        await self._log_attempt(lease, words, success=False)

    async def extend_lease(self, lease: Lease, by: timedelta = DEFAULT_LEASE) -> Lease:
        if by <= timedelta(0):
            raise InvalidTask(f"a lease can't be extended by {by}: a positive time is needed")
        parameters = self._timed(**_fence(lease), by=self._dialect.duration(by))

        async def work(session: Session, _: Try) -> datetime | None:
            if not await session.run(self._dialect["extend"], parameters):
                return None
            [row] = await session.rows(self._dialect["lease_until"], {"id": lease.task_id})
            return rows.sure(row[0])

        until = await self._atomically(work)
        if until is None:
            raise LeaseLost(lease.task_id)
        return Lease(lease.task_id, lease.owner, lease.attempt, until, lease.started_at)

    # Attempt log: after the fact, on its own, and never in anybody's way.

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
            self.options.attempt_log_hook(AttemptLogFailure(lease.task_id, lease.attempt, problem))

    async def _log_ended(self, ended: Sequence[Locked]) -> None:
        for each in ended:
            assert each.lease_until is not None
            lease = Lease(
                each.id, each.lease_owner or "", each.attempts, each.lease_until, each.updated_at
            )
            await self._log_attempt(lease, lease_ended(each), success=False)

    # One task, from outside

    async def cancel(self, task_id: TaskId, reason: str = "cancelled") -> bool:
        async def work(session: Session, _: Try) -> bool:
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
        async def work(session: Session, _: Try) -> bool:
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

    # Reading

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

    async def _read(self, name: str, **parameters: Any) -> list[Any]:
        async def work(session: Session, _: Try) -> list[Any]:
            return await session.rows(self._dialect[name], parameters)

        return await self._directly(work)

    # Dead letters and old tasks

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
        wish = Replay(delay, available_at, reset_attempts, topic, tenant_id, self._timed())
        replayed, after = 0, 0
        while limit is None or replayed < limit:
            left = None if limit is None else limit - replayed

            async def work(
                session: Session, _: Try, after: int = after, left: int | None = left
            ) -> tuple[int, int | None]:
                return await replay_some(session, self._dialect, wish, after, left)

            count, last = await self._atomically(work)
            replayed += count
            if last is None:
                break
            after = last
        [row] = await self._read("count_dlq", topic=topic, tenant_id=tenant_id)
        return Replayed(replayed, int(row[0]))

    async def purge(
        self, older_than: timedelta, *, statuses: Sequence[Status] = (Status.DONE,)
    ) -> int:
        if any(status in OPEN for status in statuses):
            raise InvalidTask("only done, dead and expired tasks can be purged; cancel the others")
        purged = 0
        parameters = self._timed(
            older_than=self._dialect.duration(older_than),
            statuses=[status.value for status in statuses],
            limit=_PURGED_AT_ONCE,
        )
        while True:

            async def work(session: Session, _: Try) -> int:
                return await self._purge_some(session, parameters)

            count = await self._atomically(work)
            purged += count
            if count < _PURGED_AT_ONCE:
                return purged

    async def _purge_some(self, session: Session, parameters: Parameters) -> int:
        return await session.run(self._dialect["purge"], parameters)

    async def wait(self, at_most: timedelta) -> bool:
        await asyncio.sleep(at_most.total_seconds())
        return False


def _is_past(duration: timedelta | None) -> bool:
    return duration is not None and duration <= timedelta(0)


def _fence(lease: Lease) -> Parameters:
    return {"id": lease.task_id, "owner": lease.owner, "attempt": lease.attempt}
