"""Runs each step on a task store and on the model, and compares what they say."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.tasks.errors import DuplicateTask, LeaseLost
from penstock.tasks.task import Dedupe, Lease, NewTask, TaskId
from tests.tasks.model import Model, Row

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from penstock.tasks.store import TaskStore
    from tests.tasks.backends import Place

T = TypeVar("T")
MINUTE = timedelta(minutes=1)
TOPICS = ["mail", "Mail", "print"]
TENANTS = ["a", "b", "b "]
KEYS = ["k", "K"]
# Short, like delays and leases: what matters is found where they end.
TTL = 2
LEASE = 2


class Machine(RuleBasedStateMachine):
    """Tasks of a few tenants and topics, and workers that may be late."""

    def __init__(self, place: Place, store: TaskStore, runner: asyncio.Runner) -> None:
        super().__init__()
        self.store, self.runner, self.model = store, runner, Model()
        self.leases: list[Lease] = []
        self.number = 0
        self._empty(place)

    def _empty(self, place: Place) -> None:
        if place.is_sql:
            place.backend.run(  # type: ignore[attr-defined]
                place, "delete from mq_tasks", "delete from mq_task_dlq"
            )
        else:
            assert place.memory is not None
            place.memory.__init__(place.memory.options)  # type: ignore[misc]

    def do(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return self.runner.run(run())

    def one_of_the_leases(self, data: st.DataObject) -> Lease:
        """One of the last few, of an attempt that its own owner has outlived, or a stranger's."""
        outlived = [each for each in self.leases if self.outlived(each)]
        strangers = [replace(each, owner="s") for each in self.leases[-1:]]
        return data.draw(st.sampled_from([*outlived[-3:], *strangers, *self.leases[-4:]]))

    def outlived(self, lease: Lease) -> bool:
        """Whether all but the attempt would let it pass."""
        row = self.model.rows[lease.task_id]
        held = self.model.held(lease.task_id, lease.owner, row.attempts)
        return held is not None and row.attempts != lease.attempt

    def fenced(self, lease: Lease, act: Callable[[], Awaitable[Any]]) -> tuple[Row | None, Any]:
        row = self.model.held(lease.task_id, lease.owner, lease.attempt)
        if row is None:
            with pytest.raises(LeaseLost):
                self.do(act())
            return None, None
        return row, self.do(act())

    @rule(
        topic=st.sampled_from(["mail", *TOPICS]),
        tenant=st.sampled_from(["a", *TENANTS]),
        priority=st.sampled_from([0, 20, 20, 40]),
        attempts=st.sampled_from([1, 2, 5]),
        delay=st.sampled_from([0, 0, 0, 2]),
        expires=st.sampled_from([None, None, None, 3]),
        key=st.sampled_from([None, "k", *KEYS]),
        dedupe=st.sampled_from(["forever", "open", TTL]),
    )
    def insert(
        self,
        *,
        topic: str,
        tenant: str,
        priority: int,
        attempts: int,
        delay: int,
        expires: int | None,
        key: str | None,
        dedupe: str | int,
    ) -> None:
        self.number += 1
        task = NewTask(
            topic,
            str(self.number).encode(),
            tenant_id=tenant,
            priority=priority,
            max_attempts=attempts,
            delay=delay * MINUTE or None,
            expires_in=None if expires is None else expires * MINUTE,
            dedupe_key=key,
            dedupe={"forever": Dedupe.FOREVER, "open": Dedupe.WHILE_OPEN}.get(
                str(dedupe), TTL * MINUTE
            ),
        )
        now = self.model.now
        row = Row(
            task.id,
            topic,
            tenant,
            priority,
            attempts,
            self.number,
            now,
            now + delay,
            None if expires is None else now + expires,
            key,
        )
        expected = self.model.insert(row, dedupe)
        if expected == task.id:
            assert self.do(self.store.insert(task)) == expected
        else:
            with pytest.raises(DuplicateTask) as caught:
                self.do(self.store.insert(task))
            assert caught.value.task_id == expected

    @rule(
        owner=st.sampled_from(["w", "w", "v"]),
        topics=st.sampled_from([None, None, ["mail"], ["print", "mail"], ["Mail"]]),
        tenant=st.sampled_from([None, None, None, *TENANTS]),
        limit=st.integers(1, 4),
    )
    def reserve(self, owner: str, topics: list[str] | None, tenant: str | None, limit: int) -> None:
        expected = self.model.reserve(owner, topics, tenant, limit, LEASE)
        taken = self.do(
            self.store.reserve(
                owner, topics=topics, tenant_id=tenant, limit=limit, lease=LEASE * MINUTE
            )
        )
        assert [task.id for task in taken] == expected
        assert [task.attempts for task in taken] == [
            self.model.rows[task_id].attempts for task_id in expected
        ]
        self.leases += [task.lease for task in taken]

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        lease = self.one_of_the_leases(data)
        row, _ = self.fenced(lease, lambda: self.store.ack(lease))
        if row is not None:
            self.model.ack(row)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), delay=st.sampled_from([0, 2]), counts=st.booleans())
    def release(self, data: st.DataObject, delay: int, counts: bool) -> None:
        lease = self.one_of_the_leases(data)
        row, status = self.fenced(
            lease, lambda: self.store.release(lease, delay=delay * MINUTE, counts=counts)
        )
        if row is not None:
            assert status == self.model.release(row, delay, counts=counts)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def begin_anew(self, data: st.DataObject) -> None:
        """As a worker whose handler failed: the same owner gets the task again at once."""
        lease = self.one_of_the_leases(data)
        row, status = self.fenced(lease, lambda: self.store.release(lease))
        if row is not None:
            assert status == self.model.release(row, 0, counts=True)
            self.reserve(lease.owner, [row.topic], row.tenant, 4)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def bury(self, data: st.DataObject) -> None:
        lease = self.one_of_the_leases(data)
        row, _ = self.fenced(lease, lambda: self.store.move_to_dlq(lease, "no use"))
        if row is not None:
            self.model.bury(row)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), by=st.integers(1, 3))
    def extend(self, data: st.DataObject, by: int) -> None:
        lease = self.one_of_the_leases(data)
        row, _ = self.fenced(lease, lambda: self.store.extend_lease(lease, by * MINUTE))
        if row is not None:
            self.model.extend(row, by)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.model.rows)))
        assert self.do(self.store.cancel(TaskId(task_id))) == self.model.cancel(task_id)

    @precondition(lambda self: self.model.rows)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.model.rows)))
        assert self.do(self.store.retry(TaskId(task_id))) == self.model.retry(task_id)

    @rule(limit=st.integers(1, 3), reset=st.booleans())
    def replay(self, limit: int, reset: bool) -> None:
        found = self.do(self.store.replay_dlq(limit=limit, reset_attempts=reset))
        assert (found.replayed, found.remaining) == self.model.replay(limit, reset=reset)

    @rule(minutes=st.integers(1, 2))
    def time_passes(self, minutes: int) -> None:
        self.store.shift_clock(minutes * MINUTE)
        self.model.now += minutes

    @invariant()
    def the_counts_agree(self) -> None:
        stats = self.do(self.store.stats())
        counted = {status: getattr(stats, status) for status in self.model.counts()}
        assert counted == self.model.counts()
        assert stats.total == len(self.model.rows)

    @invariant()
    def the_dead_letters_agree(self) -> None:
        letters = self.do(self.store.list_dlq(limit=1000))
        assert sorted(each.task_id for each in letters) == sorted(self.model.letters)

    def teardown(self) -> None:
        self.store.shift_clock(-self.model.now * MINUTE)


@contextmanager
def opened(place: Place) -> Iterator[tuple[TaskStore, asyncio.Runner]]:
    """A store with its tables, and the loop that it lives in."""
    with asyncio.Runner() as runner:
        store = place.store()
        runner.run(store.create_tables())
        try:
            yield store, runner
        finally:
            runner.run(store.close())
