"""Messages that kill whoever works on them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import psycopg

import penstock.sync
from prove.actors.names import QUEUE, TOPIC
from prove.ledger import Step
from prove.model import Outcome, Part
from prove.servers import mortal
from prove.stage import staged

if TYPE_CHECKING:
    from prove.model import Take
    from prove.stage import Stage

WORKERS = 4
ATTEMPTS = 3
CLAIM = 1


def play(take: Take) -> Outcome:
    poisoned = take.size(full=50, quick=4, twin=6)
    healthy = 10 * poisoned
    with (
        mortal() as server,
        # Without a limit of attempts a message comes back for ever.
        staged(server.dsn(), take.folder, attempts=0 if take.sabotaged else ATTEMPTS) as stage,
    ):
        with penstock.sync.connect(server.dsn()) as mq:
            numbers = list(range(poisoned + healthy))
            take.luck.shuffle(numbers)
            mq.publish_many(
                TOPIC, [{"number": each, "poison": each < poisoned} for each in numbers]
            )
        deaths = _work(take, stage, poisoned)
        return _outcome(stage, poisoned, healthy, deaths)


def _work(take: Take, stage: Stage, poisoned: int) -> int:
    """Have them all tried, with a new worker for each that dies; returns how many did."""
    supervisors = stage.workers(WORKERS, "--claim", str(CLAIM), part="fall")
    # The twin's messages never come to rest.
    most = ATTEMPTS * poisoned + WORKERS if take.sabotaged else None
    stage.until(lambda: _enough(stage, most) or stage.drained(), "the queue is never empty")
    stage.kill(supervisors)
    stage.recorder.finish()
    return _deaths(stage)


def _enough(stage: Stage, most: int | None) -> bool:
    return most is not None and _deaths(stage) >= most


def _deaths(stage: Stage) -> int:
    return stage.count(Step.FAULT)


def _outcome(stage: Stage, poisoned: int, healthy: int, deaths: int) -> Outcome:
    deliveries = Counter(entry.number for entry in stage.entries() if entry.step is Step.DELIVERED)
    with psycopg.connect(stage.dsn, autocommit=True) as db:
        dead = _dead(db)
    found = {
        "outlived its attempts": sum(deliveries[each] > ATTEMPTS for each in range(poisoned)),
        "not dead": sum(each not in dead for each in range(poisoned)),
        "dead with other attempts": sum(attempts != ATTEMPTS for attempts in dead.values()),
        "healthy and dead": sum(each >= poisoned for each in dead),
        "lost": sum(not deliveries[each] for each in range(poisoned, poisoned + healthy)),
    }
    tried = Counter(deliveries[each] for each in range(poisoned))
    counts = {
        "acked": poisoned + healthy,
        "delivered": len(deliveries),
        "poisoned": poisoned,
        "dead letters": len(dead),
        f"delivered {ATTEMPTS} times exactly": tried[ATTEMPTS],
        "worker deaths": deaths,
        "slices cut": stage.slices["slices cut"],
        **found,
    }
    return Outcome(counts, {name: count for name, count in found.items() if count})


def _dead(db: psycopg.Connection[Any]) -> dict[int, int]:
    """The numbers of dead letters, and after how many attempts they died."""
    rows = db.execute(
        "select (d.payload ->> 'number')::int, d.delivery_attempts "
        "from penstock_data.dead_letters d join penstock_data.queues q on q.id = d.queue_id "
        "where q.name = %s",
        (QUEUE,),
    )
    return dict(rows.fetchall())


PART = Part(
    name="poison",
    promise="A message that kills its worker is dead after exactly as many attempts as the queue "
    "allows, and takes no other message with it.",
    how="50 messages among 500 others kill the process that handles them (SIGKILL), and with "
    "it whatever else that worker has claimed; the queue allows 3 attempts.",
    sabotage="the queue sets no limit",
    breaks=frozenset({"outlived its attempts"}),
    play=play,
    enough={"poisoned": 50, "slices cut": 20},
)
