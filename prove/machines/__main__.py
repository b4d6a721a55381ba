"""One door in a process of its own: `python -m prove.machines SQL --seed 7 --steps 1000 …`."""

from __future__ import annotations

import argparse
import json
import signal
import traceback
from pathlib import Path

from prove.machines.doors import DOORS
from prove.machines.exploring import Disagreement, Exploration

# Then a fresh server: the segments that examples leave behind make every look slower.
STAGE = 2_500


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
    exploration = Exploration(f"{given.seed} {given.door}", shrink=not given.sabotaged)
    try:
        while exploration.steps < given.steps:
            with DOORS[given.door].open(given.sabotaged) as kinds:
                exploration.go_on(kinds, min(given.steps, exploration.steps + STAGE))
    except Disagreement as problem:
        wrong = str(problem)
    except Exception:  # noqa: BLE001 - the programme is told, whatever it is
        trouble = traceback.format_exc()
    answer = {"steps": exploration.steps, "wrong": wrong, "trouble": trouble}
    given.answer.write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
