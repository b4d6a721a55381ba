"""Tasks: enqueue, reserve and ack, on both databases, beside a naive store, in one run.

    python -m bench.tasks                         a backlog of a million: about 15 minutes
    python -m bench.tasks --backlog 20000         does everything work?

The naive store is `SELECT … FOR UPDATE SKIP LOCKED` on the seed's own tables and index.  Stores
take turns, each on a database of its own on the same server, with the same driver and tasks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.tasks.course import Figure, run
from bench.tasks.places import MySQLPlace, Place, PostgresPlace
from penstock.embedded import installation
from penstock.testing import server as postgres
from tests.tasks import mariadb

if TYPE_CHECKING:
    from collections.abc import Sequence

SMALL = 1000
TENANTS = (1, 1000)
RESULTS = Path("build/bench/tasks.json")
_SETTINGS = ("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=2G")


def table(figures: Sequence[Figure]) -> Table:
    """One row for each store, database, backlog and number of tenants."""
    shown = Table(title="milliseconds a call, median; reserve takes 10 tasks")
    for name in ("database", "backlog", "tenants", "store"):
        shown.add_column(name)
    for name in ("enqueue 1", "enqueue 100", "reserve", "ack", "a task", "naive/this", "grown"):
        shown.add_column(name, justify="right")
    for each in figures:
        naive = _same(figures, each, store="naive", backlog=each.backlog)
        small = _same(figures, each, store=each.store, backlog=SMALL)
        shown.add_row(
            each.database,
            f"{each.backlog:,}",
            f"{each.tenants:,}",
            each.store,
            *(f"{ms:.2f}" for ms in (each.enqueue_1, each.enqueue_100, each.reserve_10, each.ack)),
            f"{each.per_task:.2f}",
            f"{naive.reserve_10 / each.reserve_10:.1f}",
            f"{each.reserve_10 / small.reserve_10:.1f}x",
        )
    return shown


def _same(figures: Sequence[Figure], like: Figure, *, store: str, backlog: int) -> Figure:
    wanted = (like.database, like.tenants, store, backlog)
    return next(f for f in figures if (f.database, f.tenants, f.store, f.backlog) == wanted)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.tasks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--backlog", type=int, default=1_000_000, help="beside 1,000 (%(default)s)")
    add("--rounds", type=int, default=20, help="calls of each kind (%(default)s)")
    add("--out", type=Path, default=RESULTS, help="where the JSON goes (%(default)s)")
    return parser.parse_args()


def main() -> int:
    arguments = _arguments()
    console = Console() if sys.stdout.isatty() else Console(width=160)
    figures: list[Figure] = []
    # On disk: a test server would keep its data in memory.
    os.environ.setdefault("TMPDIR", tempfile.gettempdir())
    with ExitStack() as stack:
        server = stack.enter_context(postgres.running("bench", installation.packaged()))
        maria = stack.enter_context(mariadb.running(*_SETTINGS))
        places: list[Place] = [PostgresPlace(server), MySQLPlace(maria)]
        for place in places:
            for tenants in TENANTS:
                backlogs = (SMALL, arguments.backlog)
                figures += asyncio.run(run(place, backlogs, tenants, arguments.rounds))
                console.print(f"{place.name}: measured with {tenants:,} tenants")
    console.print(table(figures))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps([asdict(each) for each in figures], indent=1))
    console.print(f"wrote {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
