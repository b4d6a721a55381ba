"""A small disk: a log with a quota refuses publishing while there is still room for acks."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from penstock.errors import EmbeddedServerStuck
from prove import disks
from prove.cast import PATIENCE_SECONDS
from prove.ledger import Step
from prove.model import Outcome, Part
from prove.servers import mortal_in
from prove.stage import staged

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from prove.cast import Actor
    from prove.model import Take
    from prove.servers import Mortal
    from prove.stage import Stage

EXT4_MIB = 1024
# What is left free of it when the play begins.
ROOM_MIB = 220
QUOTA_MIB = 40
SETTINGS = {"max_wal_size": "64MB", "min_wal_size": "48MB", "checkpoint_timeout": "30s"}
ENGINE = {"segment_bytes": str(8 * disks.MIB), "receipt_retention": "5 seconds"}
PUBLISH = ("--lanes", "3", "--batch", "20", "--size", "3000", "--answer", "5")
FULL = {"PS013", "53100"}
# A consumer that can go on acks hundreds in this time.
ACKS_WITHIN_SECONDS = 15
FEWEST_ACKS = 100
# A full disk may stop the server; it forgets claims each time.
CRASHES = 20


def play(take: Take) -> Outcome:
    if reason := disks.why_not("mkfs.ext4"):
        return Outcome(skipped=reason)
    with (
        disks.disk(
            take.folder / "disk.img", take.folder / "disk", kind="ext4", mib=EXT4_MIB
        ) as place,
        mortal_in(place, **SETTINGS) as server,
    ):
        _configure(server, quota=not take.sabotaged)
        with staged(server.dsn(), take.folder) as stage:
            return _Play(take, server, stage, place).played()


class _Play:
    def __init__(self, take: Take, server: Mortal, stage: Stage, place: Path) -> None:
        self.take = take
        self.server = server
        self.stage = stage
        self.ballast = place / "ballast"
        self.rounds = take.size(full=5, quick=1, twin=1)

    def played(self) -> Outcome:
        self._leave(ROOM_MIB)
        publishers = self.stage.publishers(2, *PUBLISH)
        fewest = None
        for _ in range(self.rounds):
            # Nobody consumes: the log grows until somebody says stop.
            self._await(self._refused, "publishing is never refused")
            self.stage.fault("log full")
            acks = self._acks_while_full()
            fewest = acks if fewest is None else min(fewest, acks)
            self.take.say(f"publishing refused, {acks} acks in {ACKS_WITHIN_SECONDS} s")
        if not self.take.sabotaged:
            self._fill_from_outside()
        return self._outcome(publishers, fewest or 0)

    def _acks_while_full(self) -> int:
        before = self.stage.count(Step.DONE)
        consumers = [self.stage.start("consume", "--claim", "5") for _ in range(2)]
        # Workers ack in batches, and so make room sooner; only single acks are counted.
        consumers += self.stage.workers(1, "--claim", "5")
        self._pass(ACKS_WITHIN_SECONDS)
        acks = self.stage.count(Step.DONE) - before
        if not self.take.sabotaged:
            stored = self.stage.count(Step.ACKED)
            self._await(
                lambda: self.stage.count(Step.ACKED) > stored, "publishing is never resumed"
            )
        # What is claimed comes back when the claims end.
        self.stage.kill(consumers)
        self.stage.fault("consumers ended")
        return acks

    def _fill_from_outside(self) -> None:
        """Somebody else takes the rest of the disk, and gives it back later."""
        self._leave(0)
        self.stage.fault("disk full")
        self._pass(10)
        self.ballast.unlink()
        self.stage.fault("space returned")
        self.take.say("disk filled from outside, and space returned")

    def _outcome(self, publishers: list[Actor], fewest: int) -> Outcome:
        self.ballast.unlink(missing_ok=True)
        self._revive()
        acked = self.stage.count(Step.ACKED)
        workers = self.stage.workers(2, "--claim", "5")
        self._await_publishing_after(acked)
        self.stage.close(publishers, workers)
        verdict = self.stage.verdict(crashes=CRASHES)
        # The history of acks is not kept for longer than seconds here.
        broken = {name: count for name, count in verdict.broken.items() if name != "unexplained"}
        if fewest < FEWEST_ACKS:
            broken["acks stopped"] = 1
        counts = {name: count for name, count in verdict.counts.items() if name != "unexplained"}
        refusals = [each.place for each in self.stage.entries() if each.step is Step.REFUSED]
        return Outcome(
            {
                **counts,
                "rounds": self.rounds,
                "refused, log full (PS013)": refusals.count("PS013"),
                "refused, disk full (53100)": refusals.count("53100"),
                "fewest acks in 15 s while full": fewest,
            },
            broken,
        )

    def _refused(self) -> bool:
        """Refused since the last fault, or with the server gone."""
        entries = self.stage.entries()
        last = max((n for n, each in enumerate(entries) if each.step is Step.FAULT), default=0)
        return not self.server.alive or any(
            each.step is Step.REFUSED and each.place in FULL for each in entries[last:]
        )

    def _await_publishing_after(self, stored: int) -> None:
        self._await(lambda: self.stage.count(Step.ACKED) > stored, "publishing is never resumed")

    def _leave(self, mib: int) -> None:
        """Take so much of the disk that this is left."""
        free = shutil.disk_usage(self.ballast.parent).free
        size = self.ballast.stat().st_size if self.ballast.exists() else 0
        with self.ballast.open("ab") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), size, max(free - mib * disks.MIB, 1))

    def _pass(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._revive()
            self._maintain()
            time.sleep(0.3)

    def _await(self, condition: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, otherwise
            self._maintain()
            time.sleep(0.3)

    def _maintain(self) -> None:
        # As a worker does every now and then, and as unlucky as a worker may be.
        with (
            suppress(psycopg.Error),
            psycopg.connect(self.server.dsn(), autocommit=True, connect_timeout=2) as db,
        ):
            db.execute("set statement_timeout = '5s'")
            db.execute("call penstock.run_maintenance()")

    def _revive(self) -> None:
        if not self.server.alive:
            with suppress(EmbeddedServerStuck):
                self.server.start()


def _configure(server: Mortal, *, quota: bool) -> None:
    with psycopg.connect(server.dsn(), autocommit=True) as db:
        for setting, value in ENGINE.items():
            db.execute("select penstock.configure(%s, %s)", (setting, value))
        if quota:
            limit = str(QUOTA_MIB * disks.MIB)
            db.execute("select penstock.configure('max_log_bytes', %s)", (limit,))


PART = Part(
    name="disk-full",
    promise="With a quota, publishing is refused with a clear error before the disk is full, acks "
    "go on; and if others fill the disk all the same, nothing is lost when space returns.",
    how="On an ext4 of 220 MiB publishers run against `max_log_bytes` until they are refused; "
    "consumers then ack. At last a ballast file takes the whole disk, and is removed.",
    sabotage="no quota",
    breaks=frozenset({"acks stopped"}),
    play=play,
    enough={"rounds": 5, "refused, log full (PS013)": 5},
)
