"""Where the programme plays on PostgreSQL: actors, the queues they share, and the verdict."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg.types.json import Jsonb

from prove import checker, punctuality
from prove.actors.names import FIFO, KEYED, QUEUE, TOPIC
from prove.cast import Cast
from prove.ledger import Step
from prove.punctuality import Receipt
from prove.recorder import Recorder
from prove.slices import Slices

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta
    from pathlib import Path

    from prove.cast import Actor
    from prove.checker import Verdict
    from prove.punctuality import Punctuality

RIVALS = 6
UNLOCKABLE = """
    select from penstock_data.queues q
    where not exists (select from penstock_data.claim_locks l where l.queue_id = q.id)
"""


class Stage(Cast):
    def __init__(
        self, dsn: str, recorder: Recorder, *, fifo: bool = False, attempts: int = 0
    ) -> None:
        super().__init__(dsn, recorder)
        self._slices = Slices(dsn)
        self._faults_amid_slices = 0
        with psycopg.connect(dsn, autocommit=True) as db:
            # By default no number of attempts kills a message: what is dead would look lost.
            db.execute(
                "select penstock.create_queue(%s, %s, max_delivery_attempts => %s)",
                (QUEUE, TOPIC, attempts),
            )
            if fifo:
                db.execute(
                    "select penstock.create_queue(%s, %s, max_delivery_attempts => 0, "
                    "ordering => 'fifo', filter => %s)",
                    (FIFO, TOPIC, Jsonb({"headers": KEYED})),
                )

    def fault(self, name: str, count: int = 1) -> None:
        super().fault(name, count)
        self._faults_amid_slices += self._slices.there

    def outage(self, name: str) -> None:
        """A fault that ends the server; `recovered` says whether it came amid slices."""
        super().fault(name)

    def recovered(self) -> None:
        """To be called when the server is back: what is in a slice now was so at the outage."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            self._faults_amid_slices += self._slices.look(db)

    def watch(self) -> Slices:
        """Count slices as long as this is entered."""
        return self._slices

    @property
    def slices(self) -> dict[str, int]:
        """How much of what was played had to do with slices."""
        return {"slices cut": self._slices.cut, "faults amid slices": self._faults_amid_slices}

    def rivals(self, count: int, *words: str, dsn: str | None = None) -> list[Actor]:
        """Processes of RIVALS sessions each that make the engine cut slices."""
        return self.workers(count, "--concurrency", str(RIVALS), *words, dsn=dsn, part="rival")

    def await_slices(self, seconds: float) -> None:
        """Until something is in a slice, so that a fault comes amid slices; not for long."""
        with psycopg.connect(self.dsn, autocommit=True) as db:
            deadline = time.monotonic() + seconds
            while not self._slices.look(db) and time.monotonic() < deadline:
                time.sleep(0.002)

    def keep_house(self, seconds: float) -> None:
        """Give every queue back the claim lock that a crash or a promotion took from it.

        A queue that is busy takes a few attempts.
        """
        with psycopg.connect(self.dsn, autocommit=True) as db:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                db.execute("select from penstock.maintain_step('claim locks restored')")
                if db.execute(UNLOCKABLE).fetchone() is None:
                    return
                time.sleep(0.01)

    @property
    def troubles(self) -> dict[str, int]:
        """Errors that sessions were told, by their code."""
        found = Counter(entry.place for entry in self.entries() if entry.step is Step.TROUBLE)
        return {f"errors {code}": count for code, count in sorted(found.items())}

    def drained(self) -> bool:
        with psycopg.connect(self.dsn, autocommit=True) as db:
            found = db.execute(
                "select sum(s.pending_count + s.processing_count + s.scheduled_count) "
                "from penstock.list_queues() q, penstock.get_queue_statistics(q.name) s"
            ).fetchone()
        return found is not None and not found[0]

    def verdict(
        self, *, crashes: int = 0, queue: str = QUEUE, failed_over: bool = False
    ) -> Verdict:
        entries = checker.within(self.entries(), queue, keyed=queue == FIFO)
        return checker.judge(
            entries,
            self._claims(queue),
            crashes=crashes,
            ordered=queue == FIFO,
            failed_over=failed_over,
        )

    def _claims(self, queue: str) -> dict[int, Counter[str]]:
        found: dict[int, Counter[str]] = defaultdict(Counter)
        for receipt in self._receipts(queue):
            found[receipt.message_id][receipt.outcome] += 1
        return found

    def punctuality(self, *, claim: timedelta, allowed: timedelta) -> Punctuality:
        """How soon what was left undone came back; only for claims that nobody has extended."""
        assert not self.count(Step.EXTENDED), "claims were extended: nobody knows when they ended"
        return punctuality.punctuality(self._receipts(QUEUE), claim=claim, allowed=allowed)

    def _receipts(self, queue: str) -> list[Receipt]:
        with psycopg.connect(self.dsn, autocommit=True) as db:
            rows = db.execute(
                "select unnest(r.message_ids), r.outcome, r.claimed_at "
                "from penstock_data.receipts r join penstock_data.queues q on q.id = r.queue_id "
                "where q.name = %s",
                (queue,),
            )
            return [Receipt(*row) for row in rows]


@contextmanager
def staged(dsn: str, folder: Path, *, fifo: bool = False, attempts: int = 0) -> Iterator[Stage]:
    """A stage with its recorder, both cleared away at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    with Recorder(folder) as recorder:
        stage = Stage(dsn, recorder, fifo=fifo, attempts=attempts)
        try:
            with stage.watch():
                yield stage
        finally:
            stage.end()
