"""Ids beyond 32 bits, and ten thousand queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from prove.actors.names import QUEUE
from prove.ledger import Step
from prove.model import Outcome, Part
from prove.servers import mortal
from prove.stage import staged

if TYPE_CHECKING:
    from prove.model import Take
    from prove.stage import Stage

LIMIT = 2**31
BEFORE = 200


def play(take: Take) -> Outcome:
    queues = take.size(full=10_000, quick=50, twin=10)
    with mortal() as server:
        with psycopg.connect(server.dsn(), autocommit=True) as db:
            db.execute("select setval('penstock_data.message_id', %s)", (LIMIT - BEFORE,))
            if take.sabotaged:
                # What an id of 32 bits would do.
                db.execute(f"alter sequence penstock_data.message_id maxvalue {LIMIT - 1}".encode())
        with staged(server.dsn(), take.folder) as stage:
            publishers = stage.publishers(2, "--lanes", "2", "--batch", "5", "--pause", "0.01")
            workers = stage.workers(2)
            _await_beyond(take, stage)
            stage.close(publishers, workers)
            verdict = stage.verdict()
            entries = stage.entries()
        beyond = sum(each.step is Step.DELIVERED and each.message_id >= LIMIT for each in entries)
        refused = sum(each.step is Step.REFUSED for each in entries)
        with psycopg.connect(server.dsn(), autocommit=True) as db:
            if take.sabotaged:
                db.execute(b"alter sequence penstock_data.message_id no maxvalue")
            astray = _many_queues(take, db, queues)
    broken = dict(verdict.broken)
    found = {"refused": refused, "astray": astray}
    broken |= {name: count for name, count in found.items() if count}
    counts = {**verdict.counts, "ids past 2^31": beyond, "queues": queues, **found}
    return Outcome(counts, broken)


def _await_beyond(take: Take, stage: Stage) -> None:
    """Until enough was published past the limit, or refused."""
    wanted = BEFORE + take.size(full=2000, quick=100, twin=100)
    stage.until(
        lambda: stage.count(Step.ACKED) + stage.count(Step.REFUSED) >= wanted,
        "publishing takes too long",
    )


def _many_queues(take: Take, db: psycopg.Connection[Any], queues: int) -> int:
    """Create them, publish one message to each, and count queues that got anything else."""
    for first in range(0, queues, 500):
        db.execute(
            "select penstock.create_queue('many-' || n) from generate_series(%s::int, %s) n",
            (first, min(first + 500, queues) - 1),
        )
    take.say(f"{queues} queues")
    db.execute(
        "select count(penstock.publish_message('many-' || n, to_jsonb(n))) "
        "from generate_series(0, %s::int) n",
        (queues - 1,),
    )
    astray = 0
    for number in range(queues):
        name = f"many-{number}"
        rows = db.execute(
            "select message_id, payload from penstock.consume_messages_batch(%s, 'me', 60, 10)",
            (name,),
        ).fetchall()
        done = [
            db.execute("select penstock.ack_message(%s, %s, 'me')", (name, each[0])).fetchone()
            for each in rows
        ]
        astray += [each[1] for each in rows] != [number] or done != [(True,)]
    rest = db.execute("select pending_count from penstock.get_queue_statistics(%s)", (QUEUE,))
    return astray + int(rest.fetchone() != (0,))


PART = Part(
    name="big-numbers",
    promise="Ids go on past 2³¹, and ten thousand queues share a database without a message going "
    "astray.",
    how="Under load the ids of messages pass 2³¹. Then 10,000 queues are made, each gets one "
    "message of its own, and each is read and acked.",
    sabotage="ids end at 2³¹",
    breaks=frozenset({"refused"}),
    play=play,
    enough={"queues": 10_000, "ids past 2^31": 1000},
)
