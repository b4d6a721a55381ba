"""The power goes: what had reached the disk by then must be enough.

The data folder is on an ext4 image in a file on XFS.  A reflink copy of that file is the disk as it
was at one moment: what the server believed to be written and was not is missing from it.  The copy
is mounted and started, and asked for everything that had been promised before that moment.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg

from penstock.errors import EmbeddedServerStuck
from penstock.testing import server as servers
from prove import disks
from prove.actors.names import QUEUE
from prove.ledger import Step
from prove.model import Outcome, Part
from prove.servers import DATABASE, mortal_in
from prove.stage import staged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prove.model import Take
    from prove.servers import Mortal
    from prove.stage import Stage

XFS_MIB = 8192
EXT4_MIB = 1536
ACTORS = 4
# What the machine's own kernel would write out by itself is not waited for.
SETTINGS = {"max_wal_size": "256MB"}
DRAIN_BATCH = 1000


@dataclass
class Tally:
    """What the copies said."""

    cuts: int = 0
    unusable: int = 0
    lost: set[int] = field(default_factory=set)
    forgotten: set[int] = field(default_factory=set)
    """Acked by a consumer, and delivered again."""
    unexpected: set[int] = field(default_factory=set)
    promised: int = 0
    redelivered: int = 0


def play(take: Take) -> Outcome:
    if reason := disks.why_not("mkfs.ext4", "mkfs.xfs"):
        return Outcome(skipped=reason)
    settings = {**SETTINGS, **({"fsync": "off"} if take.sabotaged else {})}
    with _disk(take.folder) as (image, place), mortal_in(place, **settings) as server:
        disks.settle(place)
        with staged(server.dsn(), take.folder) as stage:
            publishers = stage.publishers(ACTORS, "--lanes", "2", "--batch", "5", "--pause", "0.05")
            consumers = stage.workers(ACTORS, part="consume") + stage.rivals(1)
            tally = _cut(take, stage, server, image)
            stage.close(publishers, consumers)
            verdict = stage.verdict()
    broken = dict(verdict.broken)
    found = {
        "lost": len(tally.lost),
        "acks forgotten": len(tally.forgotten),
        "unexpected": len(tally.unexpected),
        "copies unusable": tally.unusable,
    }
    for name, count in found.items():
        if count:
            broken[name] = broken.get(name, 0) + count
    counts = {
        **verdict.counts,
        **stage.slices,
        "power cuts": tally.cuts,
        "lost": len(tally.lost) + len(verdict.lost),
        "acks forgotten": len(tally.forgotten),
        "copies unusable": tally.unusable,
        "acked before a cut, all cuts": tally.promised,
        "read from the copies": tally.redelivered,
    }
    return Outcome(counts, broken)


@contextmanager
def _disk(folder: Path) -> Iterator[tuple[Path, Path]]:
    with disks.disk(folder / "xfs.img", folder / "xfs", kind="xfs", mib=XFS_MIB) as xfs:
        image = xfs / "disk.img"
        with disks.disk(image, folder / "disk", kind="ext4", mib=EXT4_MIB) as place:
            yield image, place
    (folder / "xfs.img").unlink()


def _cut(take: Take, stage: Stage, server: Mortal, image: Path) -> Tally:
    luck, tally = take.luck, Tally()
    for cut in range(take.size(full=60, quick=3, twin=6)):
        time.sleep(luck.uniform(0.5, 2.5))
        # Promises are counted before the cut, attempts after it: between them anything goes.
        before = _numbers(stage)
        copy = image.with_name("cut.img")
        disks.freeze(image, copy)
        after = _numbers(stage)
        stage.fault("power cut")
        _weigh(_content(copy, take.folder / "copy", server), before, after, tally)
        copy.unlink()
        if cut % 10 == 9:
            take.say(f"{cut + 1} cuts, lost {len(tally.lost)}")
    return tally


def _numbers(stage: Stage) -> dict[Step, set[int]]:
    found: dict[Step, set[int]] = {step: set() for step in Step}
    for entry in stage.entries():
        found[entry.step].add(entry.number)
    return found


@dataclass(frozen=True, slots=True)
class Content:
    """What a copy holds: the log, and of it what its queue delivers."""

    stored: frozenset[int]
    delivered: frozenset[int]


def _weigh(
    content: Content | None,
    before: dict[Step, set[int]],
    after: dict[Step, set[int]],
    tally: Tally,
) -> None:
    tally.cuts += 1
    tally.promised += len(before[Step.ACKED])
    tally.unusable += content is None
    there = content or Content(frozenset(), frozenset())
    tally.redelivered += len(there.delivered)
    # Acked by its consumer, a message need not be in the log any more; delivered before the cut, it
    # need not be delivered again.
    tally.lost |= before[Step.ACKED] - there.stored - after[Step.DONE]
    tally.lost |= before[Step.ACKED] - there.delivered - after[Step.DELIVERED]
    tally.forgotten |= before[Step.DONE] & there.delivered
    tally.unexpected |= there.delivered - after[Step.ATTEMPT]


def _content(copy: Path, at: Path, server: Mortal) -> Content | None:
    """Start the copy and read its queue to the end; None if it does not start."""
    with disks.mounted(copy, at) as place:
        # The lock of the server that goes on running elsewhere.
        (place / "data" / "postmaster.pid").unlink(missing_ok=True)
        try:
            process, port = servers.start(
                server.binaries, server.owner, place, settings={"max_connections": "20"}
            )
        except EmbeddedServerStuck as problem:
            (at.parent / "copy.txt").write_text(str(problem), encoding="utf-8")
            return None
        try:
            dsn = servers.Server("copy", server.binaries, place, port, process.pid).dsn(DATABASE)
            with psycopg.connect(dsn, autocommit=True) as db:
                stored = db.execute("select payload from penstock_data.messages").fetchall()
                return Content(frozenset(row[0] for row in stored), frozenset(_drained(db)))
        except psycopg.Error:
            return None
        finally:
            servers.end(process)


def _drained(db: psycopg.Connection[Any]) -> list[int]:
    """Every number that the queue still delivers, those that were claimed at the cut included."""
    db.execute("select penstock.advance_clock('1 hour')")
    found: list[int] = []
    while True:
        rows = db.execute(
            "select message_id, payload from penstock.consume_messages_batch(%s, 'cut', 600, %s)",
            (QUEUE, DRAIN_BATCH),
        ).fetchall()
        if not rows:
            return found
        db.execute("select penstock.ack_messages(%s, %s, 'cut')", (QUEUE, [row[0] for row in rows]))
        found += [row[1] for row in rows]


PART = Part(
    name="power-cut",
    promise="When the power goes, everything acknowledged is on the disk: messages that were "
    "published, and acks.",
    how="The data folder is on an ext4 image in a loop file on XFS. 60 times under load, with 6 "
    "rivals, sessions that claim at the same time, a reflink copy freezes what has "
    "reached the device; the copy is mounted, started, and read to the end.",
    sabotage="`fsync = off`",
    breaks=frozenset({"lost"}),
    play=play,
    enough={"power cuts": 60, "acked": 50_000, "slices cut": 1000},
)
