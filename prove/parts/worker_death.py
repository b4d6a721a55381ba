"""Workers die by SIGKILL, or are stopped until their claims have ended and then go on."""

from __future__ import annotations

import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import psycopg

from prove.actors.names import FIFO
from prove.ledger import Step
from prove.model import Outcome, Part
from prove.sabotage import NO_TOKEN_CHECK, rewrite
from prove.servers import mortal
from prove.stage import staged

if TYPE_CHECKING:
    from prove.cast import Actor
    from prove.model import Take
    from prove.stage import Stage

WORKERS = 4
CLAIM = 1
# Long enough at work that what a lingerer held is in other hands when it goes on, and few enough at
# a time that something is left for lingerers, who look but now and then.
WORK = ("--fifo", "--pause", "0.8", "--claim", "3", "--concurrency", "16")
RIVALS = 2
RIVAL = ("--fifo", "--pause", "0.1", "--claim", "3")


def play(take: Take) -> Outcome:
    kills = take.size(full=200, quick=4, twin=0)
    stale = take.size(full=1000, quick=40, twin=200)
    with mortal() as server:
        if take.sabotaged:
            with psycopg.connect(server.dsn(), autocommit=True) as db:
                rewrite(db, *NO_TOKEN_CHECK)
        with staged(server.dsn(), take.folder, fifo=True) as stage:
            publishers = stage.publishers(2, "--lanes", "2", "--batch", "9", "--pause", "0.1")
            workers = stage.workers(WORKERS, *WORK) + stage.rivals(RIVALS, *RIVAL)
            _kill(take, stage, workers, kills)
            stops = _stop(take, stage, workers, stale)
            stage.close(publishers, workers)
            return _outcome(stage, kills, stops)


def _outcome(stage: Stage, kills: int, stops: int) -> Outcome:
    everything, ordered = stage.verdict(), stage.verdict(queue=FIFO)
    steps = Counter(entry.step for entry in stage.entries())
    accepted, refused = steps[Step.STALE_ACCEPTED], steps[Step.STALE_REFUSED]
    broken = dict(everything.broken)
    for name, count in ordered.broken.items():
        broken[name] = broken.get(name, 0) + count
    if accepted:
        broken["stale accepted"] = accepted
    by_action = Counter(
        entry.place for entry in stage.entries() if entry.step is Step.STALE_REFUSED
    )
    return Outcome(
        {
            **everything.counts,
            **stage.slices,
            "out of order": len(ordered.inverted),
            "in order per key": ordered.delivered,
            "worker kills": kills,
            "workers stopped": stops,
            "stale tried": accepted + refused,
            "stale accepted": accepted,
            **{f"stale {action} refused": count for action, count in sorted(by_action.items())},
        },
        broken,
    )


def _kill(take: Take, stage: Stage, workers: list[Actor], kills: int) -> None:
    luck = take.luck
    for kill in range(kills):
        time.sleep(luck.uniform(0.2, 0.6))
        victim = luck.randrange(WORKERS + RIVALS)
        workers[victim].kill()
        workers[victim].wait()
        stage.fault("worker killed")
        again = stage.workers(1, *WORK) if victim < WORKERS else stage.rivals(1, *RIVAL)
        workers[victim] = again[0]
        if kill % 20 == 19:
            take.say(f"{kill + 1} kills")


def _stop(take: Take, stage: Stage, workers: list[Actor], wanted: int) -> int:
    """Stop lingerers and workers past their claims until enough was tried; returns how often."""
    luck = take.luck
    lingerers = [stage.start("linger", "--claim", str(CLAIM)) for _ in range(2)]
    stops = 0
    while _tried(stage) < wanted:
        _await_holding(stage, lingerers)
        stopped = [*lingerers, luck.choice(workers)]
        for actor in stopped:
            actor.send_signal(signal.SIGSTOP)
        stage.fault("stopped", len(stopped))
        time.sleep(CLAIM + luck.uniform(0.1, 1.0))
        for actor in stopped:
            actor.send_signal(signal.SIGCONT)
        stage.fault("continued", len(stopped))
        stops += len(stopped)
    stage.kill(lingerers)
    take.say(f"{stops} stops")
    return stops


def _tried(stage: Stage) -> int:
    return sum(entry.step in (Step.STALE_ACCEPTED, Step.STALE_REFUSED) for entry in stage.entries())


def _await_holding(stage: Stage, lingerers: list[Actor]) -> None:
    """Until each lingerer holds something that it has not yet tried to finish."""
    names = {f"linger-{actor.pid}" for actor in lingerers}

    def holding() -> bool:
        last = {entry.actor: entry.step for entry in stage.entries() if entry.actor in names}
        return all(last.get(name) is Step.HOLDING for name in names)

    stage.until(holding, "nobody lingers: see linger.log")


PART = Part(
    name="worker-death",
    promise="A worker killed with SIGKILL loses nothing, and one that is late finishes nothing "
    "that is not its own any more.",
    how="Workers, and processes of 6 rivals, sessions that claim at the same time, are killed 200 "
    "times. Then consumers are stopped (SIGSTOP) until their claims "
    "have ended, and go on (SIGCONT): each acks, nacks, releases or extends what it held.",
    sabotage="the engine takes any token: one line of `unclaim()` changed",
    breaks=frozenset({"stale accepted"}),
    play=play,
    enough={"worker kills": 200, "stale tried": 1000, "slices cut": 1000},
)
