"""What the tests of workers do again and again."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock.observe.events import Event, subscribe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    import psycopg

    from penstock import Worker

PATIENCE_SECONDS = 20


@asynccontextmanager
async def working(*workers: Worker) -> AsyncIterator[None]:
    """Run workers for as long as the block lasts, then stop them in order."""
    tasks = [asyncio.create_task(worker.run(signals=False)) for worker in workers]
    try:
        yield
    finally:
        await asyncio.gather(*(worker.stop() for worker in workers))
        await asyncio.gather(*tasks)


async def until(condition: Callable[[], object]) -> None:
    """Return as soon as something holds; it must within reason."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.005)


def states(db: psycopg.Connection[Any], queue: str = "billing") -> dict[str, int]:
    """How many messages are where."""
    row = db.execute(
        "select pending_count, processing_count, completed_count, dead_count "
        "from penstock.get_queue_statistics(%s)",
        (queue,),
    ).fetchone()
    assert row is not None
    return dict(zip(("pending", "claimed", "done", "dead"), row, strict=True))


def dead_letters(db: psycopg.Connection[Any], queue: str = "billing") -> list[str]:
    """The errors of a queue's dead letters."""
    statement = "select last_error from penstock.list_dlq_messages(%s)"
    return [row[0] for row in db.execute(statement, (queue,))]


def terminate_others(db: psycopg.Connection[Any]) -> int:
    """End every other session of the test's database, as a fail-over does."""
    done = db.execute(
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        "where datname = current_database() and pid <> pg_backend_pid() "
        "and backend_type = 'client backend'"
    ).fetchone()
    assert done is not None
    return int(done[0])


class Heard:
    """The events of a test."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def named(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]


def hearing() -> Iterator[Heard]:
    """A fixture's body: everything that is emitted while the test runs."""
    heard = Heard()
    with subscribe(heard.events.append):
        yield heard
