"""Several processes of a contestant's own worker, as one that is told to start and to stop."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bench.peers.node_peers import work_words
from bench.peers.processes import run_workers
from bench.peers.worker_process import MODULES

if TYPE_CHECKING:
    import asyncio

    from bench.peers.workers import Jobs, Serve

PYTHON = tuple(MODULES)
NODE = ("pg-boss", "graphile-worker")
#: Those that take part.  chancy and awa do not: they are many times slower in `jobs`.
FLEETS = (*PYTHON, *NODE)


def fleet(name: str, count: int) -> Serve:
    async def serve(dsn: str, jobs: Jobs, stop: asyncio.Event) -> None:
        await run_workers(_words(name, dsn, jobs), count, jobs, stop, jobs.begun)

    return serve


def _words(name: str, dsn: str, jobs: Jobs) -> list[str]:
    if name in NODE:
        return work_words(name, dsn, jobs)
    return [sys.executable, "-m", "bench.peers.worker_process", name, dsn, str(jobs.concurrency)]
