"""The claim lock of a queue and the rows of its claims: no order of the two ends in a deadlock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.concurrency.sessions import call, in_background, value
from tests.fixtures import clock
from tests.sqs_sql.caller import Sqs

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures.databases import Connect

    Session = psycopg.Connection[Any]


@pytest.mark.parametrize("administration", ["purge_queue", "delete_queue"])
@pytest.mark.parametrize("verb", ["shorten", "make visible late", "delete late"])
def test_one_who_holds_a_claim_and_needs_the_queue_meets_one_who_empties_it(
    db: Session, connect: Connect, verb: str, administration: str
) -> None:
    sqs = Sqs(db)
    sqs.create("q")
    for body in ("a", "b"):
        sqs.send("q", body)
    early = sqs.receive("q", 2, VisibilityTimeout=5)
    clock.advance(db, 10)
    (held,) = sqs.receive("q", 1, VisibilityTimeout=600)
    late = next(each for each in early if each["Body"] != held["Body"])
    worker, other = connect(autocommit=False), connect()
    mine = Sqs(worker)
    change = {"QueueUrl": "q", "ReceiptHandle": held["ReceiptHandle"]}
    mine("ChangeMessageVisibility", **change, VisibilityTimeout=900)

    waiting = in_background(db, other, lambda: call(other, administration, "q"))
    if verb == "shorten":
        mine("ChangeMessageVisibility", **change, VisibilityTimeout=60)
    elif verb == "make visible late":
        change["ReceiptHandle"] = late["ReceiptHandle"]
        mine("ChangeMessageVisibility", **change, VisibilityTimeout=60)
    else:
        mine("DeleteMessage", QueueUrl="q", ReceiptHandle=late["ReceiptHandle"])
    worker.commit()

    waiting.result()
    for table in ("claims", "scheduled"):
        assert value(db, f"select count(*) from penstock_data.{table}") == 0, table


def test_two_who_need_a_claim_and_the_queue_do_not_stop_each_other(
    db: Session, connect: Connect
) -> None:
    """One holds a claim and deletes another message late; the other deletes the first one late."""
    sqs = Sqs(db)
    sqs.create("q")
    for body in ("a", "b"):
        sqs.send("q", body)
    early = sqs.receive("q", 2, VisibilityTimeout=5)
    clock.advance(db, 10)
    (again,) = sqs.receive("q", 1, VisibilityTimeout=600)
    claimed, free = sorted(early, key=lambda each: each["Body"] != again["Body"])
    first, second = connect(autocommit=False), connect()
    change = {"QueueUrl": "q", "ReceiptHandle": again["ReceiptHandle"]}
    Sqs(first)("ChangeMessageVisibility", **change, VisibilityTimeout=900)
    waiting = in_background(
        db,
        second,
        lambda: Sqs(second)("DeleteMessage", QueueUrl="q", ReceiptHandle=claimed["ReceiptHandle"]),
    )
    Sqs(first)("DeleteMessage", QueueUrl="q", ReceiptHandle=free["ReceiptHandle"])
    first.commit()
    waiting.result()
    assert sqs.counts("q") == (0, 0, 0)
