"""Doors side by side, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prove.recorder import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from prove.model import Take

_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Explored:
    """What was found at one door."""

    steps: int = 0
    wrong: str = ""
    """Where it disagreed with its model; the steps that led there."""
    trouble: str = ""
    """Why it did not come to an end."""


@dataclass(frozen=True, slots=True)
class _Explorer:
    process: subprocess.Popen[bytes]
    answer: Path

    def found(self) -> Explored:
        if self.answer.exists():
            return Explored(**json.loads(self.answer.read_text(encoding="utf-8")))
        return Explored(trouble=f"it ended with {self.process.returncode}: see {self.answer.stem}")


def explore(take: Take, doors: Iterable[str], steps: int) -> dict[str, Explored]:
    """Play each door's machines for this many steps, or until they disagree; all side by side.

    A step is a conversation in which either side waits for the other, so cores are shared well.
    """
    under_way = {door: _start(take, door, steps) for door in doors}
    found: dict[str, Explored] = {}
    try:
        while under_way:
            time.sleep(_LOOK_SECONDS)
            for door in [name for name, each in under_way.items() if _is_over(each)]:
                found[door] = under_way.pop(door).found()
                take.say(f"{door}: {found[door].steps:,} steps")
    finally:
        for each in under_way.values():
            each.process.terminate()
            each.process.wait()
    return found


def _is_over(explorer: _Explorer) -> bool:
    return explorer.process.poll() is not None


def _start(take: Take, door: str, steps: int) -> _Explorer:
    name = door.replace(" ", "-")
    answer = take.folder / f"{name}.json"
    words = [door, "--seed", str(take.seed), "--steps", str(steps), "--answer", str(answer)]
    words += ["--sabotaged"] if take.sabotaged else []
    with (take.folder / f"{name}.txt").open("wb") as log:
        command = [sys.executable, "-m", "prove.machines", *words]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
    return _Explorer(process, answer)
