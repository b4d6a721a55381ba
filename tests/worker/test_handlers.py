"""The ways in which handlers run: coroutines, transactions, threads, processes, layers."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import Dead, Retry, Worker
from penstock.errors import InvalidSetting
from tests.worker.play import dead_letters, states, until, working

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from penstock import Client, Message
    from penstock.models import ClaimedMessage
    from penstock.worker.invoke import Next
    from tests.fixtures.databases import Database

    Db = psycopg.Connection[Any]


@dataclass
class Sum:
    numbers: list[int]


async def test_a_plain_function_runs_in_a_thread_with_the_payload_as_its_type(mq: Client, db: Db):
    worker, got = Worker(mq), []

    @worker.handler("billing", payload_type=Sum)
    def add(message: ClaimedMessage) -> None:
        got.append((sum(message.payload.numbers), threading.current_thread().name))

    await mq.publish("orders", {"numbers": [1, 2, 3]})
    async with working(worker):
        await until(lambda: states(db)["done"] == 1)
    assert got == [(6, "penstock-billing_0")]


async def test_threads_work_side_by_side(mq: Client, db: Db):
    worker, all_there = Worker(mq), threading.Barrier(4)

    @worker.handler("billing", concurrency=4)
    def meet(message: ClaimedMessage) -> None:
        all_there.wait(timeout=20)

    await mq.publish_many("orders", list(range(4)))
    async with working(worker):
        await until(lambda: states(db)["done"] == 4)


async def test_a_thread_that_takes_too_long_keeps_its_place_until_it_ends(mq: Client, db: Db):
    await mq.create_queue("once", topic="slow", max_delivery_attempts=1)
    worker, go_on, began = Worker(mq), threading.Event(), []

    @worker.handler("once", timeout=timedelta(milliseconds=20), prefetch=0)
    def hang(message: ClaimedMessage) -> None:
        began.append(message.payload)
        if message.payload == "hang":
            go_on.wait(timeout=20)

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None: ...

    await mq.publish_many("slow", ["hang", "next"])
    async with working(worker):
        await until(lambda: states(db, "once")["dead"] == 1)
        # Much else happens meanwhile, but the next one is not even claimed.
        for number in range(20):
            await mq.publish("orders", number)
            await until(lambda number=number: states(db)["done"] == number + 1)
        assert states(db, "once")["pending"] == 1
        go_on.set()
        await until(lambda: states(db, "once")["done"] == 1)
    assert began == ["hang", "next"]


def in_process(message: ClaimedMessage) -> None:
    """Runs elsewhere: what it does tells the test where."""
    match message.payload:
        case {"write": path}:
            with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(f"{os.getpid()}\n")
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            time.sleep(600)
        case "dead":
            raise Dead("no use")
        case "retry":
            raise Retry(timedelta(hours=1), "later")


async def test_work_for_a_core_runs_in_a_process_of_its_own(mq: Client, db: Db, tmp_path: Any):
    worker = Worker(mq)
    worker.handler("billing", run_in="process")(in_process)
    await mq.publish_many("orders", [{"write": str(tmp_path / "pids")}] * 2)
    async with working(worker):
        await until(lambda: states(db)["done"] == 2)
    pids = (tmp_path / "pids").read_text().split()
    assert len(set(pids)) == 1
    assert pids[0] != str(os.getpid())


async def test_a_process_that_dies_fails_its_own_message_only(mq: Client, db: Db):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)
    worker.handler("once", run_in="process", concurrency=2)(in_process)
    await mq.publish_many("orders", ["die", "fine", "dead", "fine"])
    async with working(worker):
        await until(lambda: states(db, "once")["done"] == 2 and states(db, "once")["dead"] == 2)
    assert sorted(dead_letters(db, "once")) == [
        "ProcessDied: the handler's process died before it had finished",
        "no use",
    ]


class Stubborn(Exception):
    """Pickle can't rebuild it: its constructor wants another argument."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} {code}")


def stubborn(message: ClaimedMessage) -> None:
    if message.payload == "bad":
        raise Stubborn(7, "no")


async def test_an_error_that_pickle_can_not_rebuild_is_told_as_it_was(mq: Client, db: Db):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)
    worker.handler("once", run_in="process")(stubborn)
    await mq.publish_many("orders", ["bad", "good"])
    async with working(worker):
        await until(lambda: states(db, "once")["done"] == 1 and states(db, "once")["dead"] == 1)
    assert dead_letters(db, "once") == ["Stubborn: no 7"]


async def test_a_process_that_takes_too_long_is_killed_and_its_place_free_again(mq: Client, db: Db):
    await mq.create_queue("once", topic="orders", max_delivery_attempts=1)
    worker = Worker(mq)
    worker.handler("once", run_in="process", timeout=timedelta(seconds=2))(in_process)
    await mq.publish_many("orders", ["hang", "fine"])
    async with working(worker):
        await until(lambda: states(db, "once")["done"] == 1)
    assert dead_letters(db, "once") == ["TookTooLong: the handler took longer than 2 s"]


async def test_a_transactional_handler_commits_its_writes_with_the_ack(mq: Client, db: Db):
    db.execute("create table ledger (payload text, seen_done bigint)")
    worker = Worker(mq)

    @worker.handler("billing", transactional=True)
    async def post(message: Message[Any], conn: Any) -> None:
        await conn.execute("insert into ledger values (%s)", (message.payload,))
        if message.payload == "bad":
            raise Dead("rolled back")

    await mq.publish_many("orders", ["good", "bad"])
    async with working(worker):
        await until(lambda: states(db)["done"] == 1 and states(db)["dead"] == 1)
    assert db.execute("select payload from ledger").fetchall() == [("good",)]


async def test_what_a_transactional_handler_publishes_joins_its_transaction(
    database: Database, db: Db
):
    """Also when such handlers hold every connection of the pool."""
    async with penstock.connect(database.dsn, pool_size=2) as mq:
        await mq.create_queue("billing", topic="orders")
        await mq.create_queue("mail", topic="mail")
        worker, both = Worker(mq), asyncio.Barrier(2)

        @worker.handler("billing", transactional=True, concurrency=2)
        async def post(message: Message[Any], conn: Any) -> None:
            async with asyncio.timeout(20):
                await both.wait()
            await mq.publish("mail", message.payload)
            await mq.publish_many("mail", [message.payload])
            await mq.publish_stream("mail", [message.payload])
            if message.payload == "bad":
                raise Dead("rolled back")

        await mq.publish_many("orders", ["good", "bad"])
        async with working(worker):
            await until(lambda: states(db)["done"] == 1 and states(db)["dead"] == 1)
        sent = [each.payload async for each in mq.browse("mail")]
    assert sent == ["good"] * 3


async def test_a_task_that_a_transactional_handler_leaves_behind_publishes_by_itself(
    mq: Client, db: Db
):
    await mq.create_queue("mail", topic="mail")
    worker, go_on, left = Worker(mq), asyncio.Event(), list[asyncio.Task[Any]]()

    async def later() -> None:
        await go_on.wait()
        await mq.publish("mail", "later")

    @worker.handler("billing", transactional=True)
    async def post(message: Message[Any], conn: Any) -> None:
        left.append(asyncio.create_task(later()))

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: states(db)["done"] == 1)
        go_on.set()
        await left[0]
    assert states(db, "mail")["pending"] == 1


async def test_layers_go_around_the_handler_the_first_outermost(mq: Client, db: Db):
    seen: list[str] = []

    def layer(name: str) -> Callable[..., Any]:
        async def around(message: Any, call_next: Next) -> Any:
            seen.append(f"{name} in")
            try:
                return await call_next(message)
            finally:
                seen.append(f"{name} out")

        return around

    worker = Worker(mq, middleware=[layer("outer"), layer("inner")])

    @worker.handler("billing")
    async def bill(message: Message[Any]) -> None:
        seen.append("handler")

    await mq.publish("orders", {})
    async with working(worker):
        await until(lambda: states(db)["done"] == 1)
    assert seen == ["outer in", "inner in", "handler", "inner out", "outer out"]


async def test_a_layer_around_a_transaction_may_answer_in_its_place(mq: Client, db: Db):
    async def only_small(message: Any, call_next: Next) -> Any:
        return await call_next(message) if message.payload < 10 else None

    worker, posted = Worker(mq, middleware=[only_small]), []

    @worker.handler("billing", transactional=True)
    async def post(message: Message[Any], conn: Any) -> None:
        posted.append(message.payload)

    await mq.publish_many("orders", [1, 99])
    async with working(worker):
        await until(lambda: states(db)["done"] == 2)
    assert posted == [1]


async def test_no_more_handlers_run_than_the_concurrency_allows(mq: Client, db: Db):
    worker, go_on, most = Worker(mq), asyncio.Event(), 0

    @worker.handler("billing", concurrency=3)
    async def bill(message: Message[Any]) -> None:
        nonlocal most
        most = max(most, worker.status().running)
        await go_on.wait()

    await mq.publish_many("orders", list(range(10)))
    async with working(worker):
        await until(lambda: worker.status().running == 3)
        # Nobody has finished yet, so nobody knows how long one takes: none is held in reserve.
        assert states(db)["claimed"] == 3
        go_on.set()
        await until(lambda: states(db)["done"] == 10)
    assert most == 3


# Registration


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"mode": "psychic"}, "'hybrid', 'listen', 'poll'"),
        ({"claim_for": 30}, "claim_for is 30: a timedelta"),
        ({"claim_for": timedelta(milliseconds=10)}, "a second at least"),
        ({"colour": "red"}, "no option colour"),
        ({"timeout": timedelta(0)}, "longer than nothing"),
        ({"run_in": "cloud"}, "'thread', 'process'"),
    ],
)
def test_an_option_that_can_not_be_used_is_told_at_once(options: dict[str, Any], problem: str):
    with pytest.raises(InvalidSetting, match=problem):
        Worker(penstock.connect()).handler("billing", **options)


def test_a_handler_must_fit_its_way_of_running():
    worker = Worker(penstock.connect())
    with pytest.raises(InvalidSetting, match="must be `async def`"):
        worker.handler("a", transactional=True)(in_process)
    with pytest.raises(InvalidSetting, match="top of a module"):
        worker.handler("b", run_in="process")(lambda message: None)
    worker.handler("c")(in_process)
    with pytest.raises(InvalidSetting, match="has a handler already"):
        worker.handler("c")(in_process)
