"""The whole server dies by SIGKILL and comes back, again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prove.actors.names import FIFO
from prove.model import Outcome, Part
from prove.servers import mortal
from prove.stage import staged

if TYPE_CHECKING:
    from prove.model import Take
    from prove.servers import Mortal
    from prove.stage import Stage

ACTORS = 4
PUBLISH = ("--lanes", "2", "--batch", "100", "--pause", "0.05", "--rate", "100")
# Commits that do not wait for the log, which nobody writes out before ten seconds have passed.
CARELESS = {
    "synchronous_commit": "off",
    "wal_writer_delay": "10s",
    "wal_writer_flush_after": "1GB",
    "wal_buffers": "64MB",
}


def play(take: Take) -> Outcome:
    kills = take.size(full=100, quick=2, twin=8)
    settings = CARELESS if take.sabotaged else {}
    with (
        mortal(**settings) as server,
        staged(server.dsn(), take.folder, fifo=True) as stage,
    ):
        publishers = stage.publishers(ACTORS, *PUBLISH)
        workers = stage.workers(ACTORS, "--fifo", "--claim", "5", "--pause", "0.1")
        workers += stage.rivals(1, "--fifo", "--claim", "5", "--pause", "0.02")
        _kill(take, server, stage, kills)
        stage.close(publishers, workers)
        everything = stage.verdict(crashes=kills)
        ordered = stage.verdict(crashes=kills, queue=FIFO)
    broken = everything.broken
    for name, count in ordered.broken.items():
        broken[name] = broken.get(name, 0) + count
    counts = {
        **everything.counts,
        **stage.slices,
        "server kills": kills,
        "in order per key": ordered.delivered,
        "out of order": len(ordered.inverted),
    }
    return Outcome(counts, broken)


def _kill(take: Take, server: Mortal, stage: Stage, kills: int) -> None:
    """Without housekeeping after a crash nothing is cut: every other time there is some."""
    luck = take.luck
    for kill in range(kills):
        time.sleep(luck.uniform(1.5, 3.5))
        if kill % 2 == 0:
            stage.await_slices(seconds=0.5)
        server.kill()
        stage.outage("server killed")
        server.start()
        stage.recovered()
        if kill % 2:
            stage.keep_house(seconds=1)
        if kill % 10 == 9:
            take.say(f"{kill + 1} kills")
    time.sleep(2)


PART = Part(
    name="server-kill",
    promise="A server killed with SIGKILL under load loses nothing that was acknowledged, invents "
    "nothing, and keeps the order of each key.",
    how="Every process of the server is killed at once, 100 times, under 4 publishers (single "
    "messages with a key, and batches), 4 workers and 6 rivals, sessions that claim at the same "
    "time, on two queues, one of them `fifo`.",
    sabotage="`synchronous_commit = off`",
    # Of acks that come undone the messages are delivered again, and nothing explains it.
    breaks=frozenset({"lost", "unexplained"}),
    play=play,
    enough={"server kills": 100, "acked": 100_000, "slices cut": 1000, "faults amid slices": 25},
)
