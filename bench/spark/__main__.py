"""The command line: `python -m bench.spark`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bench.server import usual
from bench.spark import batches, queue, streams
from bench.spark.measure import JDBC, Contest, Memory
from bench.spark.place import Missing, place

if TYPE_CHECKING:
    from collections.abc import Iterator

RESULTS = Path("build/bench")
COURSES = ("read", "write", "stream", "latency", "queue")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark",
        description="Penstock's data source beside Spark's JDBC source, in turns in one session.",
    )
    add = parser.add_argument
    add("--messages", type=int, action="append", help="sizes; 100000 unless named")
    add("--rounds", type=int, default=3, help="counted rounds of each way (%(default)s)")
    add("--seconds", type=float, default=10.0, help="of the trickle and the queue (%(default)s)")
    add("--per-second", type=int, default=200, help="messages of the trickle (%(default)s)")
    add("--course", action="append", choices=COURSES, help="only this one; may be repeated")
    add("--master", default="local[2]")
    add("--pg", default=usual(), help="embedded, system or a folder of programs (%(default)s)")
    add("--out", type=Path, default=RESULTS / "spark.json", help="where the samples go")
    return parser


def _contests(arguments: argparse.Namespace, scratch: Path) -> Iterator[Contest]:
    wanted = arguments.course or COURSES
    rounds, seconds = arguments.rounds, arguments.seconds
    with place(arguments.pg, arguments.master, scratch) as here:
        for messages in arguments.messages or (100_000,):
            if "read" in wanted:
                yield batches.batch_read(here, messages, rounds)
            if "write" in wanted:
                yield batches.batch_write(here, messages, rounds)
            if "stream" in wanted:
                yield streams.stream_to_parquet(here, messages, rounds)
        if "latency" in wanted:
            yield streams.stream_latency(here, seconds, arguments.per_second)
        if "queue" in wanted:
            yield from queue.queue_beside_a_stream(here, seconds, rounds)


def _table(contests: list[Contest]) -> Table:
    table = Table(title="medians; ratio: how many times as fast as JDBC in the same run")
    for name in ("contest", "messages", "way", "median", "ratio", "CPU", "CPU ratio", "of it"):
        table.add_column(name, justify="left" if name in ("contest", "way", "of it") else "right")
    for each in contests:
        for way, values in each.seconds.items():
            rate = "queue" in way or "per second" in each.name
            middle = median(values)
            ratio = f"{each.ratio(way):.2f}" if JDBC in each.seconds else ""
            if rate and way != "alone":
                ratio = f"{middle / median(each.seconds['alone']):.2f}"
            shown = f"{middle:,.0f} /s" if rate else f"{middle:.3f} s"
            used = f"{median(each.cpu[way]):.1f} s" if way in each.cpu else ""
            less = f"{median(each.cpu[JDBC]) / median(each.cpu[way]):.2f}" if used else ""
            shares = " ".join(
                f"{kind} {median(share):.1f}" for kind, share in each.shares.get(way, {}).items()
            )
            table.add_row(each.name, f"{each.messages:,}", way, shown, ratio, used, less, shares)
    return table


def _save(path: Path, contests: list[Contest], memory: Memory) -> None:
    samples = [
        {
            "name": each.name,
            "messages": each.messages,
            "seconds": each.seconds,
            "cpu": each.cpu,
            "shares": each.shares,
            "notes": each.notes,
        }
        for each in contests
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"contests": samples, "memory": memory.peaks}, indent=1))


def main() -> int:
    arguments = _parser().parse_args()
    console = Console()
    contests: list[Contest] = []
    with tempfile.TemporaryDirectory(prefix="penstock-spark-") as scratch:
        try:
            with Memory() as memory:
                for contest in _contests(arguments, Path(scratch)):
                    contests.append(contest)
                    # At once: what was measured is kept, whatever the next course meets.
                    _save(arguments.out, contests, memory)
                    console.print(f"{contest.name}, {contest.messages:,}: measured")
        except Missing as problem:
            console.print(str(problem))
            return 1
    console.print(_table(contests))
    for each in contests:
        if each.notes:
            console.print(each.name, {name: round(value, 3) for name, value in each.notes.items()})
    peaks = {kind: f"{size / 2**20:,.0f} MiB" for kind, size in memory.peaks.items()}
    console.print("largest memory of a process:", peaks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
