"""Consumers of the blocking client, shared by threads and closed under them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import penstock.sync
from tests.fixtures.patience import eventually_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.sync import Client, Consumer
    from tests.fixtures.databases import Database


@pytest.fixture
def mq(database: Database) -> Iterator[Client]:
    with penstock.sync.connect(database.dsn) as client:
        client.create_queue("billing", topic="orders")
        yield client


def started(count: int, run: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_threads_that_share_a_consumer_get_each_message_once(mq: Client) -> None:
    found: list[int] = []
    consumer: Consumer[Any] = mq.consume("billing", batch_size=7)

    def loop() -> None:
        for message in consumer:
            found.append(message.payload)
            message.ack()

    with consumer:
        threads = started(4, loop)
        mq.publish_many("orders", list(range(200)))
        eventually_sync(lambda: len(found) >= 200)
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(200))


def test_closing_ends_the_loops_of_every_thread(mq: Client) -> None:
    consumer: Consumer[Any] = mq.consume("billing")
    with consumer:
        threads = started(3, lambda: list(consumer) and None)
        eventually_sync(lambda: consumer._feeder._looks > 0)
    for thread in threads:
        thread.join()


def test_no_thread_is_left_when_the_client_is_closed(database: Database) -> None:
    before = set(threading.enumerate())
    with penstock.sync.connect(database.dsn) as mq:
        mq.create_queue("billing", topic="orders")
        mq.publish("orders", 1)
        message = mq.consume("billing").get(60)
        assert message is not None
        assert {each.name for each in threading.enumerate()} >= {
            "penstock listener",
            "penstock consumer of billing",
        }
    eventually_sync(lambda: set(threading.enumerate()) <= before)
