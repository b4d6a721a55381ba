"""The command line: `python -m prove`."""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from prove import show
from prove.harness import HISTORIES, play
from prove.parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = Path(__file__).parent / "results"
#: A quick run says whether the programme works; its figures are not for keeping.
ROUGH = Path("build/prove")
WIDTH = 200
SEEDS = 10**6

_EXAMPLES = """\
examples:
  python -m prove --list
  python -m prove --part server-kill --seed 7
  python -m prove --quick
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m prove",
        description="Put promises to the test: faults, counted, each with a sabotaged twin.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--list", action="store_true", help="show the parts and stop")
    add("--part", action="append", choices=PARTS, help="only this one; may be repeated")
    add("--seed", type=int, help="replay the run of this seed (default: a new one)")
    add("--quick", action="store_true", help="small counts: does everything work?")
    add(
        "--histories",
        action="store_true",
        help=f"keep every history in {HISTORIES}, not only those of parts that fail",
    )
    add("--out", type=Path, help="where results go (prove/results; quick: build/prove)")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(words)
    # Told to stop, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    if given.list:
        console.print(show.parts(PARTS.values()))
        return 0
    out = given.out or (ROUGH if given.quick else RESULTS)
    seed = secrets.randbelow(SEEDS) if given.seed is None else given.seed
    reports = []
    for name in given.part or PARTS:
        console.print(f"{name}: seed {seed}", highlight=False)
        say = lambda text: console.print(text, highlight=False, markup=False)  # noqa: E731
        reports.append(
            play(
                PARTS[name],
                seed,
                quick=given.quick,
                out=out,
                say=say,
                keep_history=given.histories,
            )
        )
    console.print(show.results(reports))
    return int(any(report.status not in ("kept", "skipped") for report in reports))


if __name__ == "__main__":
    sys.exit(main())
