"""Clocks that are wrong: those of workers by an hour, and the server's, which is set back."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import psycopg

from prove.ledger import Step
from prove.model import Outcome, Part
from prove.servers import mortal
from prove.stage import staged

if TYPE_CHECKING:
    from prove.model import Take
    from prove.stage import Stage

_SEARCHED = f"{os.environ.get('PATH', '')}:/usr/bin"
CLAIM = 4


def play(take: Take) -> Outcome:
    faketime = shutil.which("faketime", path=_SEARCHED)
    if faketime is None:
        return Outcome(skipped="faketime is not installed: sh tools/debian_packages.sh --prove")
    seconds = take.size(full=60, quick=4, twin=10)
    with mortal() as server, staged(server.dsn(), take.folder) as stage:
        publishers = stage.publishers(2, "--lanes", "2", "--batch", "5", "--pause", "0.02")
        # Waiting is by a clock that nobody sets; what time it is, by one that is wrong.
        wrong = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", faketime, "-f")
        workers = [
            stage.start("work", "--pause", "0.1", "--claim", str(CLAIM), under=(*wrong, shift))
            for shift in ("+1h", "-1h", "+1h", "-1h")
        ]
        stage.until(lambda: _at_work(stage) == len(workers), "not every worker gets to work")
        time.sleep(seconds / 2)
        with psycopg.connect(stage.dsn, autocommit=True) as db:
            if take.sabotaged:
                _believe_workers(db, seconds / 2)
            else:
                _shift(db, "-1 hour")
                stage.fault("clock set back by an hour")
                time.sleep(seconds / 2)
        stage.close(publishers, workers)
        verdict = stage.verdict()
    broken = dict(verdict.broken)
    if verdict.duplicated:
        # Nobody died and nothing took long: a second delivery means that a claim ended early.
        broken["duplicated"] = verdict.duplicated
    return Outcome({**verdict.counts, "workers an hour off": 4, "seconds": seconds}, broken)


def _at_work(stage: Stage) -> int:
    return len({each.actor for each in stage.entries() if each.step is Step.DELIVERED})


def _believe_workers(db: psycopg.Connection[Any], seconds: float) -> None:
    """As if the worker's clock said when a claim ends: the time is what the last one says."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _shift(db, "1 hour")
        time.sleep(0.3)
        _shift(db, "-1 hour")
        time.sleep(0.3)
    # Late enough for everything that was put off by then.
    _shift(db, "2 hours")


def _shift(db: psycopg.Connection[Any], by: str) -> None:
    db.execute("select penstock.advance_clock(%s::interval)", (by,))


PART = Part(
    name="clocks",
    promise="No clock but the database's counts, and setting that one back loses nothing and "
    "delivers nothing twice.",
    how="Four workers whose clocks are an hour fast or slow (faketime) share a queue; then the "
    "engine's own clock is set back by an hour under load.",
    sabotage="the engine's clock follows those of the workers",
    breaks=frozenset({"duplicated"}),
    play=play,
    enough={"acked": 1000},
)
