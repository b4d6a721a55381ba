"""Tasks without `await`: the same queue and store, for threads and for code without a loop."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.errors import DatabaseUnavailable, UnusableConnection
from penstock.tasks import (
    DuplicateTask,
    LeaseLost,
    NewTask,
    Policy,
    Stats,
    TaskError,
    TaskWorker,
    sync,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.tasks.backends import Place

pytestmark = pytest.mark.backends("pg18", "mariadb", "memory")
NAME = "penstock-tasks"


@pytest.fixture
def queue(bare_place: Place) -> Iterator[sync.TaskQueue]:
    queue = sync.connect(bare_place.dsn, attempt_log=True)
    queue.store.create_tables()
    with queue:
        yield queue


def threads() -> int:
    return sum(each.name == NAME for each in threading.enumerate())


def test_a_tasks_life_without_await(queue: sync.TaskQueue):
    first = queue.enqueue("mail", {"to": "ada"}, dedupe_key="k", max_attempts=2)
    with pytest.raises(DuplicateTask) as caught:
        queue.enqueue("mail", dedupe_key="k")
    assert caught.value.task_id == first
    store = queue.store
    [task] = store.reserve("w", topics=["mail"], policy=Policy(fair=True))
    assert task.json() == {"to": "ada"}
    store.extend_lease(task.lease, timedelta(minutes=5))
    store.release(task.lease, reason="no paper")
    with pytest.raises(LeaseLost):
        store.ack(task.lease)
    [task] = store.reserve("w")
    store.move_to_dlq(task.lease, "no use")
    assert [each.reason for each in store.list_dlq()] == ["no use"]
    assert (store.replay_dlq().replayed, queue.stats()) == (1, Stats(queued=1))
    [task] = store.reserve("w")
    store.ack(task.lease, result=b"sent")
    assert queue.result(first) == b"sent"
    assert [each.success for each in store.attempts(first)] == [False, True, False]
    store.shift_clock(timedelta(days=1))
    assert store.purge(timedelta(hours=1)) == 0
    assert not store.cancel(first)


def test_threads_share_one_store_and_each_task_is_taken_once(queue: sync.TaskQueue):
    ids = queue.enqueue_many([NewTask("mail") for _ in range(80)])
    taken: Counter[str] = Counter()

    def work(owner: str) -> None:
        while found := queue.store.reserve(owner, limit=3):
            for task in found:
                taken[task.id] += 1
                queue.store.ack(task.lease)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, [f"w{number}" for number in range(6)]))
    assert taken == Counter(ids)
    assert queue.stats() == Stats(done=80)


def test_a_closed_store_leaves_no_thread_behind():
    before = threads()
    with sync.connect("memory:") as queue:
        queue.store.now()
        assert threads() == before + 1
    assert threads() == before
    queue.store.close()
    assert threads() == before


async def test_it_works_where_a_loop_runs_already():
    with sync.connect("memory:") as queue:
        queue.enqueue("mail")
        assert queue.stats() == Stats(queued=1)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_that_is_away_is_told_and_leaves_no_thread_behind(scheme: str):
    before = threads()
    short = timedelta(milliseconds=100)
    with (
        pytest.raises(DatabaseUnavailable),
        sync.connect(f"{scheme}://127.0.0.1:1/db", retry_for=short, connect_timeout=short),
    ):
        raise AssertionError("nobody is there")
    assert threads() == before


class OneThread:
    """A connection as Django's are: for the thread that opened it, and for no other."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._thread = threading.get_ident()

    def cursor(self) -> Any:
        assert threading.get_ident() == self._thread
        return self._connection.cursor()


@pytest.mark.backends("pg18")
def test_the_callers_transaction_is_used_in_the_callers_thread(
    queue: sync.TaskQueue, bare_place: Place
):
    with psycopg.connect(bare_place.dsn) as connection:
        queue.enqueue("mail", connection=connection)
        connection.rollback()
        queue.enqueue_many([NewTask("mail"), NewTask("mail")], connection=OneThread(connection))
        assert queue.stats() == Stats()
    assert queue.stats() == Stats(queued=2)


@pytest.mark.backends("pg18")
async def test_a_connection_that_must_be_awaited_is_refused(
    queue: sync.TaskQueue, bare_place: Place
):
    async with await psycopg.AsyncConnection.connect(bare_place.dsn) as connection:
        with pytest.raises(UnusableConnection, match="awaited"):
            queue.enqueue("mail", connection=connection)
    assert queue.stats() == Stats()


@pytest.mark.backends("mariadb", "memory")
def test_where_there_is_no_callers_transaction_it_says_so(queue: sync.TaskQueue):
    with pytest.raises(UnusableConnection, match=r"transaction"):
        queue.enqueue("mail", connection=object())


def test_a_hook_that_calls_its_own_store_is_told_instead_of_hanging():
    said: list[Exception] = []
    queue = sync.connect("memory:")

    def hook() -> None:
        try:
            queue.stats()
        except TaskError as problem:
            said.append(problem)

    async def on_the_loop() -> None:
        hook()

    with queue:
        queue.store._run(on_the_loop())
    assert "hook" in str(said[0])


def test_a_store_does_not_survive_a_fork_and_says_so():
    program = """
        import os
        from penstock.tasks import TaskError, sync
        with sync.connect("memory:") as queue:
            queue.enqueue("mail")
            child = os.fork()
            if child == 0:
                try:
                    queue.stats()
                except TaskError as problem:
                    os._exit(7 if "fork" in str(problem) else 1)
                os._exit(2)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), queue.stats().queued)
    """
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.stdout.split() == ["7", "1"], ran.stderr


@pytest.mark.backends("pg18", "mariadb")
def test_a_worker_runs_without_a_loop_of_the_callers(place: Place):
    worker = TaskWorker(place.store())
    done: list[bytes] = []

    @worker.handler("mail")
    def send(task: Any) -> None:
        done.append(task.payload)
        worker.stop()

    with sync.connect(place.dsn) as queue:
        queue.enqueue("mail", "hello")
    sync.run(worker)
    assert done == [b"hello"]
