"""One door in a process of its own: `python -m prove.machines SQL --seed 7 --steps 1000 …`."""

from __future__ import annotations

import argparse
import json
import signal
import traceback
from pathlib import Path

from prove.machines.doors import DOORS
from prove.machines.exploring import Disagreement, Exploration


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m prove.machines")
    parser.add_argument("door", choices=DOORS)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--sabotaged", action="store_true", help="stop when it is noticed")
    parser.add_argument("--answer", type=Path, required=True, help="where the result goes")
    return parser


def main() -> None:
    given = _parser().parse_args()
    # Hypothesis would take SystemExit for a failure, and look for the shortest way to it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    wrong = trouble = ""
    steps = 0
    try:
        with DOORS[given.door].open(given.sabotaged) as kinds:
            seed = f"{given.seed} {given.door}"
            exploration = Exploration(kinds, seed, shrink=not given.sabotaged)
            try:
                exploration.go_on(given.steps)
            except Disagreement as problem:
                wrong = str(problem)
            finally:
                steps = exploration.steps
    except Exception:  # noqa: BLE001 - the programme is told, whatever it is
        trouble = traceback.format_exc()
    answer = {"steps": steps, "wrong": wrong, "trouble": trouble}
    given.answer.write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
