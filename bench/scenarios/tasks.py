"""Tasks: enqueue, reserve and ack, on both databases, beside a naive store, in one run.

    python -m bench.scenarios.tasks --backlog 1000000

The naive store is what most people write first: `SELECT … FOR UPDATE SKIP LOCKED` on the seed's own
tables and index.  Both take turns on the same server, with the same driver and the same tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.table import Table

from bench.scenarios import tasks_naive as naive
from penstock.embedded import locate
from penstock.tasks import NewTask, Policy, StoreOptions, open_store
from penstock.testing import server as postgres
from tests.tasks import mariadb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from penstock.tasks import TaskStore

SMALL = 1000
BATCH = 10
LEASE = timedelta(minutes=30)
PAYLOAD = b"x" * 200


class Contestant(Protocol):
    async def enqueue(self, count: int) -> None: ...
    async def reserve(self, limit: int) -> Sequence[object]: ...
    async def ack(self, taken: Sequence[object]) -> None: ...
    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Figure:
    """Median milliseconds of one call."""

    database: str
    store: str
    backlog: int
    tenants: int
    enqueue_1: float
    enqueue_100: float
    reserve: float
    ack: float


class Penstock:
    """Ours; tenants take turns where there are several."""

    def __init__(self, store: TaskStore, tenants: int) -> None:
        self._store = store
        self._policy = Policy(fair=tenants > 1)

    async def enqueue(self, count: int) -> None:
        await self._store.insert_many([NewTask("mail", PAYLOAD) for _ in range(count)])

    async def reserve(self, limit: int) -> Sequence[object]:
        return await self._store.reserve(
            "bench", topics=["mail"], limit=limit, lease=LEASE, policy=self._policy
        )

    async def ack(self, taken: Sequence[object]) -> None:
        for task in taken:
            await self._store.ack(task.lease)  # type: ignore[attr-defined]

    async def close(self) -> None:
        await self._store.close()


async def median(rounds: int, call: Callable[[], Awaitable[object]]) -> float:
    spent = []
    for _ in range(rounds):
        begun = time.perf_counter()
        await call()
        spent.append(time.perf_counter() - begun)
    return round(statistics.median(spent) * 1000, 3)


async def measure(contestant: Contestant, rounds: int, about: tuple[str, str, int, int]) -> Figure:
    reserved: list[Sequence[object]] = []

    async def reserve() -> None:
        reserved.append(await contestant.reserve(BATCH))
        assert len(reserved[-1]) == BATCH

    # The first calls prepare statements and open connections.
    await contestant.ack(await contestant.reserve(BATCH))
    reserve_ms = await median(rounds, reserve)
    waiting = iter(reserved)
    ack_ms = await median(rounds, lambda: contestant.ack(next(waiting)))
    one = await median(rounds, lambda: contestant.enqueue(1))
    hundred = await median(max(3, rounds // 5), lambda: contestant.enqueue(100))
    return Figure(*about, one, hundred, reserve_ms, round(ack_ms / BATCH, 3))


async def course(place: naive.Place, backlog: int, tenants: int, rounds: int) -> list[Figure]:
    """Both stores on one database, with this much waiting."""
    store = open_store(place.dsn, StoreOptions(pool_size=2))
    await store.create_tables()
    await place.fill("mq_tasks", backlog, tenants)
    ours = await measure(
        Penstock(store, tenants), rounds, (place.name, "penstock", backlog, tenants)
    )
    await store.close()
    await place.clear()
    peer = await place.naive()
    await place.fill("mq_tasks", backlog, tenants)
    theirs = await measure(peer, rounds, (place.name, "naive", backlog, tenants))
    await peer.close()
    await place.clear()
    return [ours, theirs]


def show(figures: Sequence[Figure]) -> None:
    table = Table(title=f"milliseconds a call, median; reserve {BATCH}")
    for name in ("database", "backlog", "tenants", "store", "enqueue 1", "enqueue 100"):
        table.add_column(name)
    for name in ("reserve", "ack", "reserve: naive/ours", "grown since small"):
        table.add_column(name, justify="right")
    small = {(f.database, f.store, f.tenants): f.reserve for f in figures if f.backlog == SMALL}
    for each in figures:
        other = next(
            f
            for f in figures
            if f.store == "naive"
            and (f.database, f.backlog, f.tenants) == (each.database, each.backlog, each.tenants)
        )
        ratio = f"{other.reserve / each.reserve:.1f}" if each.store == "penstock" else ""
        grown = each.reserve / small[each.database, each.store, each.tenants]
        table.add_row(
            each.database,
            f"{each.backlog:,}",
            str(each.tenants),
            each.store,
            str(each.enqueue_1),
            str(each.enqueue_100),
            str(each.reserve),
            str(each.ack),
            ratio,
            f"{grown:.1f}x",
        )
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenarios.tasks", description=__doc__)
    parser.add_argument("--backlog", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    with ExitStack() as stack:
        server = stack.enter_context(postgres.running("bench", locate.packaged()))
        server.administer("create database tasks")
        places: list[naive.Place] = [naive.PostgresPlace(server.dsn("tasks"))]
        maria = stack.enter_context(
            mariadb.running("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=1G")
        )
        maria.administer("create database tasks")
        places.append(naive.MySQLPlace(maria.dsn("tasks")))
        for place in places:
            for tenants in (1, 1000):
                for backlog in (SMALL, arguments.backlog):
                    figures += asyncio.run(course(place, backlog, tenants, arguments.rounds))
    if arguments.json:
        print(json.dumps([asdict(each) for each in figures], indent=2))
    else:
        show(figures)


if __name__ == "__main__":
    main()
