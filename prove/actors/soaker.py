"""The worker of a soak: `python -m prove.actors.soaker --dsn …`, until SIGTERM.

It notes its memory while it works.  When it has closed everything it prints what it found, and
stays until its standard input ends, so that others can look at what it may have left open.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import threading
from typing import Any

import psutil

import penstock

QUEUE = "billing"
NAME = "penstock soak"
_SAMPLE_SECONDS = 0.25


async def soak(dsn: str, *, hoard: bool) -> dict[str, Any]:
    """Work until told to stop; the answer is what was seen."""
    mq = penstock.connect(dsn, application_name=NAME)
    worker = penstock.Worker(mq)
    kept: list[object] = []

    @worker.handler(QUEUE, concurrency=50)
    async def handle(message: penstock.Message[Any]) -> None:
        if hoard:
            kept.append(message)

    samples: list[tuple[int, int]] = []
    sampling = asyncio.create_task(_sample(worker, samples))
    async with mq:
        await worker.run()
    sampling.cancel()
    await asyncio.wait([sampling])
    gc.collect()
    return {
        "samples": samples,
        "acked": worker.status().acked,
        "tasks": [repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()}],
    }


async def _sample(worker: penstock.Worker, samples: list[tuple[int, int]]) -> None:
    own = psutil.Process()
    while True:
        samples.append((worker.status().acked, own.memory_info().rss))
        await asyncio.sleep(_SAMPLE_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--hoard", action="store_true", help="keep every message: a planted leak")
    options = parser.parse_args()
    found = asyncio.run(soak(options.dsn, hoard=options.hoard))
    found["threads"] = [each.name for each in threading.enumerate()]
    found["sockets"] = len(psutil.Process().net_connections(kind="all"))
    print(json.dumps(found), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
