"""The command line: `python -m bench.sqs`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop
from rich.console import Console
from rich.table import Table

from bench.sqs.ours import penstock
from bench.sqs.peers import PEERS, Absent, Started, started
from bench.sqs.phases import Sample, drain_with_backlog, measure
from bench.sqs.wire import Failed

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

RESULTS = Path("build/bench")
Entry = tuple[str, "Callable[[], AbstractContextManager[Started]]"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.sqs",
        description="Penstock's SQS server, durable and with every signature checked, beside "
        "servers that keep messages in memory and check nothing.",
    )
    add = parser.add_argument
    add("--seconds", type=float, default=3.0, help="per phase (%(default)s)")
    add("--connections", type=int, action="append", help="1, 8 and 64 unless named")
    add("--server", action="append", help="only this one; may be repeated")
    add("--processes", type=int, action="append", help="Penstock with so many processes as well")
    add("--backlog", type=int, action="append", help="drain with so many waiting, e.g. 1000000")
    add("--out", type=Path, default=RESULTS / "sqs.json", help="where the samples go")
    return parser


def _entries(arguments: argparse.Namespace) -> list[Entry]:
    entries: list[Entry] = [("penstock", penstock)]
    entries += [
        (f"penstock x{count}", lambda count=count: penstock(count))
        for count in arguments.processes or ()
    ]
    entries += [(peer.name, lambda peer=peer: started(peer)) for peer in PEERS]
    wanted = arguments.server
    return [entry for entry in entries if not wanted or entry[0] in wanted]


def _samples(server: Started, arguments: argparse.Namespace) -> list[Sample]:
    found: list[Sample] = []
    for connections in arguments.connections or (1, 8, 64):
        for batch in (1, 10):
            found += uvloop.run(measure(server, connections, batch, arguments.seconds))
    found += [
        uvloop.run(drain_with_backlog(server, backlog, arguments.seconds))
        for backlog in arguments.backlog or ()
    ]
    return found


def _table(samples: list[Sample]) -> Table:
    table = Table(title="CPU of server and database per message; p50, p99 of a request in ms")
    numbers = ("conns", "batch", "msg/s", "msg/CPU s", "server us", "database us", "p50", "p99")
    for name in ("server", "phase", *numbers):
        table.add_column(name, justify="right" if name in numbers else "left")
    for each in sorted(samples, key=lambda one: (one.phase, one.batch, one.connections)):
        table.add_row(
            each.server,
            each.phase,
            str(each.connections),
            str(each.batch),
            f"{each.rate:,.0f}",
            f"{each.per_cpu_second:,.0f}",
            f"{each.each(each.server_cpu):,.0f}",
            f"{each.each(each.database_cpu):,.0f}" if each.database_cpu else "",
            f"{each.p50 * 1000:.1f}",
            f"{each.p99 * 1000:.1f}",
        )
    return table


def main() -> int:
    arguments = _parser().parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=120)
    samples: list[Sample] = []
    for name, start in _entries(arguments):
        try:
            with start() as server:
                samples += _samples(server, arguments)
                console.print(f"{name}: measured")
        except (Absent, Failed, OSError) as problem:
            console.print(f"{name}: not measured, {problem}")
    console.print(_table(samples))
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps([asdict(each) for each in samples], indent=1))
    console.print(f"wrote {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
