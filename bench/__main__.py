"""The command line: `python -m bench`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from bench.contestants import ENTRIES
from bench.harness import Request, execute
from bench.scenarios import SCENARIOS
from bench.server import ServerError, usual
from bench.sizes import chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Every sample of a run; git ignores it.  `bench.summary` makes what is kept.
RESULTS = Path("build/bench")
#: Wide enough for a row of the table where the output is not a terminal.
WIDTH = 160
ENGINE_SQL = "another version's sql/install.sql: each Penstock takes part twice, in one run"


def _epilog() -> str:
    scenarios = "\n".join(f"  {name:<14} {item.title}" for name, item in SCENARIOS.items())
    contestants = "\n".join(f"  {name:<14} {item.about}" for name, item in ENTRIES.items())
    example = (
        "python -m bench --quick --scenario claim-ack --contestant penstock --contestant textbook"
    )
    return f"scenarios:\n{scenarios}\n\nqueues:\n{contestants}\n\nexample:\n  {example}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure Penstock and its peers on a private PostgreSQL server, in one run.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="small sizes: does everything work? (under 2 minutes)")
    add("--scenario", action="append", choices=SCENARIOS, help="only this one; may be repeated")
    add("--contestant", action="append", choices=ENTRIES, help="only this one; may be repeated")
    add("--messages", type=_positive, help="messages in drain, held-snapshot and open-writer")
    add("--repeats", type=_positive, help="rounds in which the contestants take turns")
    add("--pg", default=usual(), help="embedded, system, or a folder with initdb (%(default)s)")
    add("--engine-sql", type=_file, metavar="FILE", help=ENGINE_SQL)
    add("--out", type=Path, default=RESULTS, help="where JSON and PNG go (%(default)s)")
    return parser


def _file(text: str) -> Path:
    found = Path(text).resolve()
    if not found.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return found


def _positive(text: str) -> int:
    value = int(text.replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value


def _request(arguments: argparse.Namespace) -> Request:
    usual = [name for name, entry in ENTRIES.items() if entry.default]
    return Request(
        scenarios=arguments.scenario or list(SCENARIOS),
        contestants=arguments.contestant or usual,
        sizes=chosen(quick=arguments.quick, messages=arguments.messages, repeats=arguments.repeats),
        programs=arguments.pg,
        out=arguments.out,
        other_engine=arguments.engine_sql,
    )


def main(words: Sequence[str] | None = None) -> int:
    request = _request(_parser().parse_args(words))
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        run = execute(request, console)
    except ServerError as error:
        console.print(f"[bold red]{type(error).__name__}:[/] {error}")
        return 1
    console.print(f"wrote {run.json} and {run.png}")
    return int(any(result.failed for result in run.results))


if __name__ == "__main__":
    sys.exit(main())
