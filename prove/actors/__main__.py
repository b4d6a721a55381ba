"""The command line of an actor."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from prove.actors import consumer, lingerer, publisher, rivals, tasks, victim, worker
from prove.ledger import Ledger

PARTS = {
    "publish": publisher.publish,
    "work": worker.work,
    "consume": consumer.consume,
    "linger": lingerer.linger,
    "rival": rivals.rival,
    "enqueue": tasks.enqueue,
    "perform": tasks.perform,
}
# It makes processes of its own, and so comes before any event loop.
FALL = "fall"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prove.actors")
    parser.add_argument("part", choices=[*PARTS, FALL])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--pipe", type=Path, required=True, help="where the history is kept")
    parser.add_argument("--first", type=int, default=0, help="the first number to publish")
    parser.add_argument("--lanes", type=int, default=1, help="publishers in this process")
    parser.add_argument("--batch", type=int, default=1, help="messages a call, in all lanes but 0")
    parser.add_argument("--size", type=int, default=0, help="bytes of padding in a message")
    parser.add_argument("--own", action="store_true", help="lane 1 publishes in transactions")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds")
    parser.add_argument("--rate", type=float, default=0, help="messages a second on average")
    parser.add_argument("--claim", type=float, default=2.0, help="seconds")
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--answer", type=float, default=2.0, help="seconds to wait for an answer")
    parser.add_argument("--dedupe", action="store_true")
    parser.add_argument("--pooler", action="store_true")
    parser.add_argument("--fifo", action="store_true", help="work on the queue in order as well")
    parser.add_argument("--sabotage", choices=["believe", "repeat", "early", "oversleep"])
    return parser


def main() -> None:
    options = _parser().parse_args()
    ledger = Ledger(options.pipe, f"{options.part}-{os.getpid()}")
    if options.part == FALL:
        victim.supervise(options, ledger)
    else:
        asyncio.run(PARTS[options.part](options, ledger))


if __name__ == "__main__":
    main()
