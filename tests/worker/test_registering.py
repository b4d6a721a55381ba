"""Registering handlers: what can't work is told at once, not at the first message."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
import penstock.sync
from penstock import Group, Retry, Worker
from penstock.errors import ClientClosed, InvalidArgument, InvalidSetting, PayloadInvalid
from penstock.worker.options import HandlerOptions, Options
from tests.worker.play import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.databases import Database


@pytest.fixture
def worker() -> Worker:
    return Worker(penstock.connect("postgresql://localhost/nowhere"))


async def takes_nothing() -> None: ...
async def takes_a_message(message: Any) -> None: ...
async def takes_both(message: Any, conn: Any) -> None: ...
async def takes_anything(*arguments: Any) -> None: ...
def plain(message: Any) -> None: ...
async def yields(message: Any) -> Any:
    yield message


@pytest.mark.parametrize(
    ("function", "options", "told"),
    [
        (takes_nothing, {}, r"takes_nothing must take \(message\)"),
        (takes_both, {}, r"takes_both must take \(message\)"),
        (takes_a_message, {"transactional": True}, r"must take \(message, conn\)"),
        (plain, {"transactional": True}, "must be `async def`"),
        (takes_a_message, {"run_in": "process"}, "make it a plain function"),
        (lambda message: None, {"run_in": "process"}, "top of a module"),
        (yields, {}, "has a `yield`"),
        (5, {}, "5 is no function"),
    ],
)
def test_a_function_that_can_be_no_handler_is_refused(
    worker: Worker, function: Any, options: Any, told: str
) -> None:
    with pytest.raises(InvalidSetting, match=told):
        worker.handler("billing", **options)(function)


def test_a_function_that_takes_anything_can_be_every_handler(worker: Worker) -> None:
    worker.handler("a")(takes_anything)
    worker.handler("b", transactional=True)(takes_anything)
    worker.handler("c")(print)
    assert [each.queue for each in worker.handlers] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (lambda worker: worker.handler(takes_a_message), r'@worker\.handler\("billing"\)'),
        (lambda worker: Group("g").add_member("m", plain), "must be `async def`"),
        (lambda worker: Group("g").add_member("m", takes_nothing), r"must take \(message\)"),
        (lambda worker: Worker(None), r"a client of penstock\.connect\(\)"),
        (lambda worker: Worker(penstock.sync.connect("postgresql://h/d")), r"penstock\.sync"),
    ],
)
def test_a_beginners_mistake_is_answered_with_the_cure(
    worker: Worker, mistake: Callable[[Worker], object], told: str
) -> None:
    with pytest.raises(InvalidSetting, match=told):
        mistake(worker)


def test_durations_are_no_numbers(worker: Worker) -> None:
    with pytest.raises(InvalidArgument, match="grace is 3: give a timedelta"):
        Worker(worker.client, grace=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="delay is 30: give a timedelta"):
        Retry(30)  # type: ignore[arg-type]


def test_a_scheduled_payload_is_tried_when_the_schedule_is_made(worker: Worker) -> None:
    with pytest.raises(PayloadInvalid, match="no form in JSON"):
        worker.schedule("* * * * *", topic="reports", payload=object())


def test_type_checkers_know_every_option() -> None:
    assert list(HandlerOptions.__annotations__) == [field.name for field in fields(Options)]


async def test_a_worker_whose_client_is_closed_ends_and_says_why(database: Database) -> None:
    mq = penstock.connect(database.dsn)
    await mq.open()
    await mq.create_queue("billing")
    worker = Worker(mq, grace=timedelta(seconds=1))
    worker.handler("billing")(takes_a_message)
    running = asyncio.create_task(worker.run(signals=False))
    await until(lambda: worker.status().healthy)
    await mq.close()
    with pytest.raises(ClientClosed, match=r"closed|not open"):
        await running
