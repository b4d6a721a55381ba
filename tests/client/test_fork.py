"""The blocking client in a process that was forked from the one that opened it."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import penstock.sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client._sync.client import Client
    from tests.fixtures.databases import Database

Session = psycopg.Connection[Any]
PATIENCE = 60


def in_fork(work: Callable[[], object]) -> None:
    """Run something in a forked process, and see that it succeeds."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:  # noqa: BLE001 - printed, and told by the exit status
            traceback.print_exc()
        finally:
            # Without the interpreter's exit: pytest's own must not run twice.
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.fixture
def mq(database: Database, db: Session) -> Client:
    db.execute("select penstock.create_queue('billing', 'orders')")
    db.execute("select penstock.create_queue('shipping', 'parcels')")
    return penstock.sync.connect(database.dsn)


def backends(mq: Client) -> set[int]:
    with mq.transaction() as connection:
        return {connection.info.backend_pid}


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_parent_and_child_use_connections_of_their_own(mq: Client) -> None:
    with mq:
        of_parent = backends(mq)
        published = mq.publish("orders", "before")

        def child() -> None:
            assert not backends(mq) & of_parent
            for number in range(20):
                mq.publish("orders", number)
            [first] = mq.claim("billing")
            assert first.id == published.id
            assert first.ack()
            mq.close()

        in_fork(child)
        assert backends(mq) == of_parent
        assert [message.payload for message in mq.claim("billing", count=100)] == list(range(20))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_child_has_a_listener_of_its_own_and_leaves_the_parents_consumers_alone(mq: Client) -> None:
    with mq, mq.consume("billing", prefetch=5) as of_parent:
        mq.publish_many("orders", [1, 2, 3])
        first = of_parent.get(PATIENCE)
        assert first is not None

        def child() -> None:
            with mq.consume("shipping", mode="listen") as consumer:
                assert consumer.get(0.2) is None
                mq.publish("parcels", 4)
                message = consumer.get(PATIENCE)
                assert message is not None
                assert message.payload == 4
                assert message.ack()
            mq.close()

        in_fork(child)
        assert first.ack()
        for number in (2, 3):
            message = of_parent.get(PATIENCE)
            assert message is not None
            assert message.payload == number
            assert message.ack()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_client_that_was_not_open_can_be_opened_in_the_child(mq: Client) -> None:
    def child() -> None:
        with mq:
            mq.publish("orders", 1)

    in_fork(child)
    with mq:
        assert [message.payload for message in mq.claim("billing")] == [1]
