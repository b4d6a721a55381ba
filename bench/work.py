"""The steps that scenarios are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import figures
from bench.ledger import DeliveryError
from bench.measure import Stopwatch

if TYPE_CHECKING:
    from bench.arena import Lane
    from bench.sizes import Sizes

#: Empty answers in a row after which a backlog counts as lost.
PATIENCE = 100


def publish(lane: Lane, messages: int, watch: Stopwatch) -> None:
    """Publish in batches of the case's size, one call each."""
    session, single = lane.session, lane.case.batch == 1
    for payloads in list(lane.stream.batches(messages, lane.case.batch)):
        watch.start()
        if single:
            session.publish_one(payloads[0])
        else:
            session.publish_batch(payloads)
        watch.stop()


def claim_and_ack(lane: Lane, messages: int, watch: Stopwatch, queue: int = 0) -> None:
    """Claim and ack until that many messages are done; each pair of calls is timed."""
    done = empty = 0
    while done < messages:
        watch.start()
        claim = lane.session.claim(min(lane.case.batch, messages - done), queue)
        if claim.numbers:
            lane.session.ack(claim)
            watch.stop()
        lane.ledger.note(claim.numbers, queue)
        done += len(claim)
        empty = 0 if claim.numbers else empty + 1
        if empty > PATIENCE:
            raise DeliveryError(f"{lane.contestant.name}: {messages - done} messages are missing")


def settle_in(lane: Lane, sizes: Sizes) -> None:
    """Let the planner see tables as they look in use, then leave the queue empty.

    Statistics of an empty table would make it scan the table for as long as they last.
    """
    batches = sizes.preload_batch // lane.case.batch
    lane.preload(batches * lane.case.batch, sizes)
    before, after = figures.shares(batches, parts=2)
    claim_and_ack(lane, before * lane.case.batch, Stopwatch())
    lane.vacuum()
    claim_and_ack(lane, after * lane.case.batch, Stopwatch())


def pass_through(lane: Lane, messages: int, watch: Stopwatch) -> None:
    """Publish a batch, claim it, ack it: a queue that keeps up."""
    for payloads in lane.stream.batches(messages, lane.case.batch):
        lane.session.publish_batch(payloads)
        lane.session.settle()
        claim_and_ack(lane, len(payloads), watch)
