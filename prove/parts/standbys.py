"""Behind a pooler, and with a standby that takes over."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from prove.ledger import Step
from prove.model import Outcome, Part
from prove.recorder import ROOT
from prove.replicas import pair
from prove.stage import staged

if TYPE_CHECKING:
    from prove.model import Take
    from prove.replicas import Pair
    from prove.stage import Stage

ACTORS = 3
# Longer than publishers wait for an answer, so that they cancel what waits for the standby.
ANSWER = 2
DEAD_SECONDS = 5
SHORT_SECONDS = 0.7


def play(take: Take) -> Outcome:
    suite = {} if take.sabotaged else _behind_pgbouncer(take)
    promotions = take.size(full=10, quick=2, twin=3)
    with (
        pair(take.folder, synchronous=not take.sabotaged) as servers,
        staged(servers.dsn, take.folder) as stage,
    ):
        words = ("--lanes", "2", "--batch", "5", "--pause", "0.01", "--answer", str(ANSWER))
        publishers = stage.publishers(ACTORS, *words)
        workers = stage.workers(ACTORS) + stage.rivals(1)
        _fail_over(take, servers, stage, promotions)
        stage.close(publishers, workers)
        verdict = stage.verdict(crashes=promotions, failed_over=True)
        unknown = sum(entry.step is Step.UNKNOWN for entry in stage.entries())
    broken = dict(verdict.broken)
    if suite.get("pgbouncer tests failed"):
        broken["pgbouncer tests failed"] = suite["pgbouncer tests failed"]
    counts = {
        **verdict.counts,
        "promotions": promotions,
        "told unknown": unknown,
        **suite,
        **stage.slices,
    }
    return Outcome(counts, broken)


def _fail_over(take: Take, servers: Pair, stage: Stage, promotions: int) -> None:
    luck = take.luck
    for promotion in range(promotions):
        time.sleep(luck.uniform(2, 4))
        stage.await_slices(seconds=1)
        # Every other time the standby is gone for longer than anybody waits.
        servers.silence()
        stage.outage("standby silenced")
        time.sleep(DEAD_SECONDS if promotion % 2 else SHORT_SECONDS)
        stage.outage("primary killed")
        servers.fail_over()
        stage.recovered()
        stage.outage("standby promoted")
        servers.follow()
        # A standby has no claim locks; without them nothing is cut.
        stage.keep_house(seconds=2)
        take.say(f"{promotion + 1} promotions")
    time.sleep(2)


def _behind_pgbouncer(take: Take) -> dict[str, int]:
    """The client's tests on the route through pgbouncer in transaction mode."""
    words = ["tests/client", "tests/worker", "-k", "pgbouncer", "-q", "--timeout", "300"]
    words += ["--deselect", "tests/client/_sync"] if take.quick else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    (take.folder / "pgbouncer.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    found = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed)", done.stdout)}
    take.say(f"through pgbouncer: {found}")
    return {
        "pgbouncer tests passed": found.get("passed", 0),
        "pgbouncer tests failed": found.get("failed", 0),
    }


PART = Part(
    name="pools-and-standbys",
    promise="Everything works through pgbouncer in transaction mode; what was acknowledged with a "
    "synchronous standby survives the loss of the primary; without it no publish succeeds.",
    how="The client's tests run through pgbouncer. Then 10 times under load the link to the "
    "synchronous standby goes silent, for less and for more than clients wait; the primary is "
    "killed, the standby promoted, and a new standby made.",
    sabotage="the standby is asynchronous",
    breaks=frozenset({"lost"}),
    play=play,
    enough={"promotions": 10, "acked": 1000, "pgbouncer tests passed": 50, "slices cut": 100},
)
