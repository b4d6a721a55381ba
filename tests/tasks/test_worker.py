"""Workers on every store: what a handler says, what a lease does, and how they stop."""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from penstock.errors import DatabaseUnavailable, InvalidSetting, WorkerGaveUp
from penstock.observe.events import Event, Name, subscribe
from penstock.observe.metrics import Metrics
from penstock.tasks import (
    Backoff,
    Dead,
    MemoryTaskStore,
    NewTask,
    Priority,
    Retry,
    Stats,
    Status,
    TaskQueue,
    TaskWorker,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.tasks.store import TaskStore
    from penstock.tasks.task import Task, TaskId

MINUTE = timedelta(minutes=1)
SOON = timedelta(seconds=20)


@asynccontextmanager
async def at_work(worker: TaskWorker) -> AsyncIterator[asyncio.Task[None]]:
    run = asyncio.create_task(worker.run(handle_signals=False))
    try:
        yield run
    finally:
        worker.stop()
        await asyncio.wait_for(run, SOON.total_seconds())


async def until(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), SOON.total_seconds())


async def settled(store: TaskStore, task_id: TaskId, *statuses: Status) -> Task:
    async with asyncio.timeout(SOON.total_seconds()):
        while True:
            task = await store.get(task_id)
            if task is not None and task.status in statuses:
                return task
            await asyncio.sleep(0.01)


async def extended(store: TaskStore, before: Task) -> None:
    async with asyncio.timeout(SOON.total_seconds()):
        while True:
            task = await store.get(before.id)
            if task is not None and task.lease_until != before.lease_until:
                return
            await asyncio.sleep(0.02)


async def test_a_handler_that_returns_acks_its_task(store: TaskStore):
    worker = TaskWorker(store)
    seen: list[tuple[Any, int]] = []

    @worker.handler("mail")
    async def send(task: Task) -> None:
        seen.append((task.json(), task.attempts))

    await store.insert(NewTask("mail", b'{"to": "ada"}'))
    assert await worker.drain() == 1
    assert seen == [({"to": "ada"}, 1)]
    assert await store.stats() == Stats(done=1)


async def test_a_plain_function_runs_in_a_thread(store: TaskStore):
    worker = TaskWorker(store)
    threads: list[int] = []

    @worker.handler("mail")
    def send(task: Task) -> None:
        threads.append(threading.get_ident())

    await store.insert(NewTask("mail"))
    await worker.drain()
    assert threads
    assert threads != [threading.get_ident()]


async def test_an_exception_tries_again_after_a_growing_pause(store: TaskStore):
    worker = TaskWorker(store, backoff=Backoff(jitter=0))

    @worker.handler("mail")
    async def send(task: Task) -> None:
        raise ValueError("no paper")

    task_id = await store.insert(NewTask("mail", max_attempts=3))
    for pause in (1, 2):
        assert await worker.drain() == 1
        task = await store.get(task_id)
        assert task is not None
        assert task.last_error == "ValueError: no paper"
        assert task.available_at - task.updated_at == timedelta(seconds=pause)
        assert await worker.drain() == 0
        store.shift_clock(timedelta(seconds=pause))
    assert await worker.drain() == 1
    [dead] = await store.list_dlq()
    assert (dead.task_id, dead.reason) == (task_id, "ValueError: no paper")
    assert await store.stats() == Stats(dead=1)


async def test_retry_chooses_its_own_delay_and_dead_ends_it(store: TaskStore):
    worker = TaskWorker(store)

    @worker.handler("mail")
    async def send(task: Task) -> None:
        raise Retry(delay=MINUTE, reason="later")

    @worker.handler("print")
    async def print_(task: Task) -> None:
        raise Dead("no such printer")

    later, never = await store.insert_many([NewTask("mail"), NewTask("print")])
    assert await worker.drain() == 2
    task = await store.get(later)
    assert task is not None
    assert (task.last_error, task.available_at - task.updated_at) == ("later", MINUTE)
    [dead] = await store.list_dlq()
    assert (dead.task_id, dead.reason) == (never, "no such printer")


async def test_a_handler_that_takes_too_long_is_cancelled_and_tried_again(store: TaskStore):
    worker = TaskWorker(store)

    @worker.handler("mail", timeout=timedelta(milliseconds=20))
    async def send(task: Task) -> None:
        await asyncio.Event().wait()

    task_id = await store.insert(NewTask("mail"))
    await worker.drain()
    task = await store.get(task_id)
    assert task is not None
    assert task.last_error == "TookTooLong: the handler took longer than 0.02 s"


async def test_results_are_kept_on_request(store: TaskStore):
    worker = TaskWorker(store)

    @worker.handler("sum", keep_result=True)
    async def add(task: Task) -> dict[str, int]:
        return {"sum": sum(task.json())}

    @worker.handler("forget")
    async def forget(task: Task) -> str:
        return "nothing"

    kept, forgotten = await store.insert_many([NewTask("sum", b"[1, 2]"), NewTask("forget")])
    await worker.drain()
    assert await store.result(kept) == b'{"sum": 3}'
    assert await store.result(forgotten) is None


@pytest.mark.parametrize("kept", [object(), {1: {2}}], ids=["object", "set"])
async def test_a_result_that_can_not_be_stored_ends_its_task_at_once(store: TaskStore, kept: Any):
    worker, calls = TaskWorker(store), 0

    @worker.handler("sum", keep_result=True)
    async def add(task: Task) -> Any:
        nonlocal calls
        calls += 1
        return kept

    task_id = await store.insert(NewTask("sum", max_attempts=3))
    assert await worker.drain() == 1
    [dead] = await store.list_dlq()
    assert (dead.task_id, calls) == (task_id, 1)
    assert "the handler's result can't be written as JSON" in dead.reason


@pytest.mark.backends("memory", "postgres")
async def test_as_many_plain_functions_run_at_once_as_were_asked_for(store: TaskStore):
    worker, all_there = TaskWorker(store, concurrency=20), threading.Barrier(20)
    met = asyncio.Event()
    loop = asyncio.get_running_loop()

    @worker.handler("mail")
    def send(task: Task) -> None:
        all_there.wait(timeout=SOON.total_seconds())
        loop.call_soon_threadsafe(met.set)

    await store.insert_many([NewTask("mail") for _ in range(20)])
    async with at_work(worker):
        await until(met)
    assert await store.stats() == Stats(done=20)


class Mine(BaseException):
    """An application's own, beside Exception."""


@pytest.mark.parametrize("plain", [False, True], ids=["coroutine", "thread"])
@pytest.mark.parametrize(
    "problem", [SystemExit(3), Mine("x"), StopIteration(7)], ids=lambda each: type(each).__name__
)
@pytest.mark.backends("memory")
async def test_whatever_a_handler_raises_is_a_failed_attempt(
    store: TaskStore, problem: BaseException, plain: bool
):
    worker = TaskWorker(store)

    def send(task: Task) -> None:
        raise problem

    async def send_async(task: Task) -> None:
        raise problem

    worker.handler("mail")(send if plain else send_async)
    task_id = await store.insert(NewTask("mail", max_attempts=1))
    assert await worker.drain() == 1
    [dead] = await store.list_dlq()
    assert dead.task_id == task_id
    assert type(problem).__name__ in dead.reason


@pytest.mark.parametrize("delay", [timedelta(hours=-1), timedelta(days=9999), timedelta.max])
async def test_a_retry_of_any_delay_is_stored(store: TaskStore, delay: timedelta):
    worker = TaskWorker(store)

    @worker.handler("mail")
    async def send(task: Task) -> None:
        if task.attempts == 1:
            raise Retry(delay, "later")

    task_id = await store.insert(NewTask("mail"))
    assert await worker.drain() == (2 if delay < timedelta(0) else 1)
    task = await store.get(task_id)
    assert task is not None
    if delay > timedelta(0):
        assert task.available_at - task.updated_at == timedelta(days=365)
    assert (await store.stats()).leased == 0


@pytest.mark.backends("memory", "postgres")
async def test_a_handler_has_a_concurrency_of_its_own(store: TaskStore):
    worker = TaskWorker(store, concurrency=5)
    now, most, left = {"a": 0, "b": 0}, {"a": 0, "b": 0}, 24
    done = asyncio.Event()

    async def count(task: Task) -> None:
        nonlocal left
        now[task.topic] += 1
        most[task.topic] = max(most[task.topic], now[task.topic])
        await asyncio.sleep(0.01)
        now[task.topic] -= 1
        left -= 1
        if not left:
            done.set()

    worker.handler("a", concurrency=2)(count)
    worker.handler("b")(count)
    await store.insert_many([NewTask(topic) for topic in "ab" * 12])
    async with at_work(worker):
        await until(done)
    assert most["a"] == 2
    assert 2 < most["b"] <= 5


def compute(task: Task) -> int:
    """Runs in a process of its own."""
    if task.payload == b"bad":
        raise Dead("no use")
    return os.getpid()


@pytest.mark.backends("memory")
async def test_a_plain_function_may_run_in_a_process(store: TaskStore):
    worker = TaskWorker(store)
    worker.handler("sum", run_in="process", keep_result=True)(compute)
    good, bad = await store.insert_many([NewTask("sum"), NewTask("sum", b"bad")])
    assert await worker.drain() == 2
    pid = await store.result(good)
    assert pid is not None
    assert int(pid) != os.getpid()
    assert [each.task_id for each in await store.list_dlq()] == [bad]


@pytest.mark.backends("memory")
async def test_layers_go_around_every_handler(store: TaskStore):
    seen: list[str] = []

    async def around(task: Task, call_next: Any) -> Any:
        seen.append("in")
        try:
            return await call_next(task)
        finally:
            seen.append("out")

    worker = TaskWorker(store, middleware=[around])

    @worker.handler("mail", keep_result=True)
    async def send(task: Task) -> str:
        seen.append("handler")
        return "sent"

    task_id = await store.insert(NewTask("mail"))
    await worker.drain()
    assert seen == ["in", "handler", "out"]
    assert await store.result(task_id) == b'"sent"'


@pytest.mark.backends("memory")
async def test_status_tells_what_each_handler_does(store: TaskStore):
    worker, begun, go_on = TaskWorker(store), asyncio.Event(), asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        begun.set()
        await go_on.wait()

    worker.handler("print")(print)
    await store.insert(NewTask("mail"))
    run = asyncio.create_task(worker.run(signals=False))
    await until(begun)
    mail, other = worker.status().handlers
    assert (mail.queue, mail.running, mail.claimed, other.running) == ("mail", 1, 1, 0)
    assert worker.status().healthy
    go_on.set()
    await worker.stop()
    assert worker.status().state == "stopped"
    assert worker.status().acked == 1
    await run
    with pytest.raises(InvalidSetting, match="runs once"):
        await worker.run()


@pytest.mark.backends("memory")
async def test_a_stop_at_once_waits_for_no_handler(store: TaskStore):
    worker, begun = TaskWorker(store, grace=timedelta(hours=1)), asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        begun.set()
        await asyncio.Event().wait()

    await store.insert(NewTask("mail"))
    run = asyncio.create_task(worker.run(signals=False))
    await until(begun)
    await asyncio.wait_for(worker.stop(at_once=True), SOON.total_seconds())
    await run
    # Its lease ends by itself.
    assert await store.stats() == Stats(leased=1)


@pytest.mark.backends("memory")
async def test_a_worker_that_can_not_read_its_store_gives_up_when_told_to(store: TaskStore):
    worker = TaskWorker(
        store, max_queue_retries=2, queue_error_retry_interval=timedelta(milliseconds=1)
    )
    worker.handler("mail")(print)

    async def away(*_: Any, **__: Any) -> Any:
        raise DatabaseUnavailable("away")

    store.reserve = away  # type: ignore[method-assign]
    with pytest.raises(WorkerGaveUp, match="the task store could not be read 3 times in a row"):
        await worker.run(signals=False)


async def test_a_worker_takes_the_higher_priority_first(store: TaskStore):
    worker = TaskWorker(store, concurrency=1)
    order: list[bytes] = []

    @worker.handler("mail")
    async def send(task: Task) -> None:
        order.append(task.payload)

    for name, priority in ((b"low", Priority.LOW), (b"high", Priority.HIGH), (b"mid", 20)):
        await store.insert(NewTask("mail", name, priority=priority))
    await worker.drain()
    assert order == [b"high", b"mid", b"low"]


async def test_a_task_that_comes_later_is_handled_as_well(store: TaskStore):
    worker, came = TaskWorker(store), asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        came.set()

    async with at_work(worker):
        await asyncio.sleep(0.1)
        await store.insert(NewTask("mail"))
        await until(came)
    assert (await store.stats()).leased == 0


async def test_no_more_than_the_concurrency_run_at_once(store: TaskStore):
    worker = TaskWorker(store, concurrency=3)
    now, most, left = 0, 0, 12
    done = asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        nonlocal now, most, left
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.01)
        now, left = now - 1, left - 1
        if not left:
            done.set()

    await store.insert_many([NewTask("mail") for _ in range(left)])
    async with at_work(worker):
        await until(done)
    assert most == 3


async def test_a_lease_is_extended_while_the_handler_runs(store: TaskStore):
    worker = TaskWorker(store, lease=timedelta(seconds=1))
    begun, go_on = asyncio.Event(), asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        begun.set()
        await go_on.wait()

    task_id = await store.insert(NewTask("mail"))
    async with at_work(worker):
        await until(begun)
        first = await store.get(task_id)
        assert first is not None
        await extended(store, first)
        go_on.set()
        await settled(store, task_id, Status.DONE)


async def test_a_handler_is_cancelled_when_its_lease_is_lost(store: TaskStore):
    worker = TaskWorker(store, lease=timedelta(milliseconds=400))
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    events: list[Event] = []
    task_id = await store.insert(NewTask("mail"))
    with subscribe(events.append):
        async with at_work(worker):
            await until(begun)
            assert await store.cancel(task_id)
            await until(cancelled)
    task = await store.get(task_id)
    assert task is not None
    assert task.status is Status.DEAD
    assert [each.task_id for each in events if each.name is Name.LEASE_LOST] == [task_id]


async def test_a_stop_waits_for_what_runs(store: TaskStore):
    worker = TaskWorker(store)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        begun.set()
        await go_on.wait()

    await store.insert(NewTask("mail"))
    async with at_work(worker) as run:
        await until(begun)
        worker.stop()
        await store.insert(NewTask("mail"))
        go_on.set()
        await asyncio.wait_for(run, SOON.total_seconds())
    assert await store.stats() == Stats(queued=1, done=1)


async def test_what_is_not_done_in_time_is_released_with_the_reason(store: TaskStore):
    worker = TaskWorker(store, grace=timedelta(0))
    begun = asyncio.Event()

    @worker.handler("mail")
    async def send(task: Task) -> None:
        begun.set()
        await asyncio.Event().wait()

    task_id = await store.insert(NewTask("mail", max_attempts=1))
    async with at_work(worker):
        await until(begun)
    task = await store.get(task_id)
    assert task is not None
    assert task.status is Status.QUEUED
    assert task.last_error == "the worker stopped before the handler had finished"
    assert len(await store.reserve("other")) == 1


async def test_a_schedule_fires_once_however_many_workers_run(store: TaskStore):
    for _ in range(2):
        worker = TaskWorker(store)
        worker.schedule("*/5 * * * *", topic="report", payload={"kind": "daily"}, missed="latest")
        scheduler = _scheduler(worker)
        assert await scheduler.once() > 0
        assert await scheduler.once() > 0
    [task] = await store.list_tasks()
    assert (task.topic, task.json()) == ("report", {"kind": "daily"})
    assert task.meta is not None
    assert task.meta["schedule"].startswith("report-")


def _scheduler(worker: TaskWorker) -> Any:
    return worker._new_cron()


async def test_a_topic_has_one_handler(store: TaskStore):
    worker = TaskWorker(store)
    worker.handler("mail")(print)
    with pytest.raises(InvalidSetting):
        worker.handler("mail")(print)
    with pytest.raises(InvalidSetting):
        await TaskWorker(store).run()


async def test_two_workers_share_the_work_and_nothing_is_done_twice(store: TaskStore):
    done: list[TaskId] = []
    all_done = asyncio.Event()
    workers = [TaskWorker(store, concurrency=4) for _ in range(2)]
    for worker in workers:

        @worker.handler("mail")
        async def send(task: Task) -> None:
            done.append(task.id)
            if len(done) == 60:
                all_done.set()

    ids = await store.insert_many([NewTask("mail") for _ in range(60)])
    async with at_work(workers[0]), at_work(workers[1]):
        await until(all_done)
    assert sorted(done) == sorted(ids)
    assert await store.stats() == Stats(done=60)


def test_the_backoff_is_that_of_the_seed():
    backoff = Backoff()
    assert [backoff.delay(n, 0.5).total_seconds() for n in (1, 2, 3, 9, 10, 99)] == pytest.approx(
        [1, 2, 4, 256, 300, 300]
    )
    assert backoff.delay(1, 0) == timedelta(seconds=0.8)
    assert backoff.delay(1, 1) == timedelta(seconds=1.2)


def test_the_jitter_differs_from_time_to_time_and_stays_within_a_fifth():
    delays = {Backoff().delay(4).total_seconds() for _ in range(200)}
    assert len(delays) > 100
    assert 6.4 <= min(delays) <= max(delays) <= 9.6


def test_an_idle_worker_looks_less_and_less_often_up_to_the_polling_interval():
    worker = TaskWorker(MemoryTaskStore(), polling_interval=timedelta(seconds=1))
    worker.handler("mail")(print)
    [runner] = worker.runners()
    pauses = [runner.source.pause(looks) for looks in range(1, 40)]  # type: ignore[attr-defined]
    wanted = [min(0.05 * 2**number, 1) for number in range(39)]
    assert all(0.9 * most <= pause <= most for pause, most in zip(pauses, wanted, strict=True))


@pytest.mark.backends("memory")
async def test_a_tasks_life_is_told_in_events_and_counted(store: TaskStore):
    told: list[Event] = []
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    queue = TaskQueue(store)
    worker = TaskWorker(queue)

    @worker.handler("mail")
    async def send(task: Task) -> None:
        if task.payload:
            raise Dead("no use")

    with subscribe(told.append), subscribe(metrics):
        await queue.enqueue("mail", task_id="one")
        same = NewTask("mail", dedupe_key="k")
        await queue.enqueue_many([NewTask("mail", b"x"), same], skip_duplicates=True)
        await queue.enqueue_many([NewTask("mail", dedupe_key="k")], skip_duplicates=True)
        assert await worker.drain() == 3
    enqueued = [(each.task_id, each.count) for each in told if each.name is Name.TASK_ENQUEUED]
    assert enqueued == [("one", 1), (None, 2)]
    counted = {
        name: registry.get_sample_value(f"penstock_tasks_{name}_total", labels)
        for name, labels in {
            "enqueued": {"topic": "mail"},
            "done": {"topic": "mail"},
            "dead_lettered": {"topic": "mail", "error_kind": "Dead"},
        }.items()
    }
    assert counted == {"enqueued": 3, "done": 2, "dead_lettered": 1}
