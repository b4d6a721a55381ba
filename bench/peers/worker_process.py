"""A contestant's worker as a process: `python -m bench.peers.worker_process NAME DSN CONCURRENCY`.

How it speaks is told in `processes`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from importlib import import_module

from bench.peers.workers import WORKERS, Jobs

STDOUT = 1
#: What a worker imports; loaded before the start, because it takes longer than many jobs.
MODULES = {
    "penstock": ("penstock.client._async.client", "penstock.worker"),
    "pgqueuer": ("asyncpg", "pgqueuer.db", "pgqueuer.qm", "pgqueuer.queries"),
    "procrastinate": ("procrastinate",),
}


@dataclass
class Teller:
    """Tells the numbers of jobs, gathered for as long as the event loop is busy."""

    numbers: list[int] = field(default_factory=list)

    def handled(self, number: int) -> None:
        self.numbers.append(number)
        if len(self.numbers) == 1:
            asyncio.get_running_loop().call_soon(self.tell)

    def tell(self) -> None:
        line = " ".join(map(str, self.numbers))
        self.numbers.clear()
        os.write(STDOUT, f"{line}\n".encode())


async def _serve(name: str, dsn: str, concurrency: int) -> None:
    stop = asyncio.Event()
    released = asyncio.create_task(_released(stop))
    await WORKERS[name](dsn, Jobs(concurrency, 0.0, Teller().handled), stop)
    await released


async def _released(stop: asyncio.Event) -> None:
    await asyncio.to_thread(sys.stdin.read)
    stop.set()


def main(name: str, dsn: str, concurrency: str) -> None:
    for module in MODULES[name]:
        import_module(module)
    os.write(STDOUT, b"ready\n")
    sys.stdin.readline()
    asyncio.run(_serve(name, dsn, int(concurrency)))


if __name__ == "__main__":
    main(*sys.argv[1:])
