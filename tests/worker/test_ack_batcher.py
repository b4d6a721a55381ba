"""Acks are sent at once when nothing is under way, and gathered when something is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from penstock.errors import DatabaseUnavailable, InvalidArgument
from penstock.models import ClaimedMessage, MessageId
from penstock.worker.ack_batcher import AckBatcher
from penstock.worker.invoke import Claim
from penstock.worker.options import Options
from penstock.worker.outcomes import ACKED, RELEASED, Outcome, Verdict
from penstock.worker.queue_source import QueueSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.worker.runner import Answer, Ended

SLOTS = SimpleNamespace(waiting=0)
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def held(number: int, key: str | None = None, token: str = "one") -> Claim:
    record = ClaimedMessage(MessageId(number), None, None, key, 0, 1, NOW, NOW, None, None)
    return Claim(record, token, 0.0, SLOTS, key is not None)  # type: ignore[arg-type]


class Wire:
    """A runner and its line to a database that answers when the test says so."""

    title = "the queue"
    gathers = True
    most_calls = 4
    refusals: tuple[type[Exception], ...] = ()

    def __init__(self, *, waiting: int = 0, enough: int = 25) -> None:
        self.source = self
        self.options = Options(batch_size=4 * enough)
        SLOTS.waiting = waiting
        self.sent: list[list[int]] = []
        self.finished: list[int] = []
        self.lost: list[int] = []
        self.answer = asyncio.Event()
        self.failures = 0
        self.refuses: set[int] = set()
        if waiting:
            self.answer.set()

    def batches(self, ended: list[Ended]) -> Iterable[list[Ended]]:
        return QueueSource.batches(self, ended)  # type: ignore[arg-type]

    async def settle(self, batch: list[Ended]) -> Answer:
        self.sent.append([claim.id for claim, _ in batch])
        await self.answer.wait()
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable("away")
        if any(claim.id in self.refuses and outcome.delay for claim, outcome in batch):
            raise InvalidArgument("delay_seconds is out of range", code="PS005")
        return {claim: False for claim, _ in batch}

    def answered(self, batch: list[Ended], kept: Answer) -> None:
        self.finished += [claim.id for claim, _ in batch]

    def lose(self, claim: Claim) -> None:
        self.lost.append(claim.id)


def idle(wire: Wire) -> AckBatcher:
    """Of a worker in which no message waits."""
    return AckBatcher(wire)  # type: ignore[arg-type]


def busy() -> tuple[Wire, AckBatcher]:
    """Of a worker in which more messages wait than it can handle."""
    wire = Wire(waiting=9, enough=4)
    return wire, AckBatcher(wire)  # type: ignore[arg-type]


async def test_while_messages_wait_acks_gather_for_a_moment():
    wire, batcher = busy()
    for number in (1, 2, 3):
        batcher.add(held(number), ACKED)
        await asyncio.sleep(0)
    assert wire.sent == []
    await batcher.drained()
    assert wire.sent == [[1, 2, 3]]


async def test_acks_that_are_enough_leave_at_once():
    wire, batcher = busy()
    for number in (1, 2, 3, 4):
        batcher.add(held(number), ACKED)
    await asyncio.sleep(0)
    assert wire.sent == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    "one", [(held(2, "key"), ACKED), (held(2), RELEASED)], ids=["a key", "no ack"]
)
async def test_what_the_queue_waits_for_leaves_at_once(one: tuple[Claim, Outcome]):
    wire, batcher = busy()
    batcher.add(held(1), ACKED)
    await asyncio.sleep(0)
    batcher.add(*one)
    for _turn in range(4):
        await asyncio.sleep(0)
    assert [number for call in wire.sent for number in call] == [1, 2]


async def test_the_first_ack_leaves_at_once_and_the_others_together_after_it():
    wire = Wire()
    batcher = idle(wire)
    batcher.add(held(1), ACKED)
    await asyncio.sleep(0)
    assert wire.sent == [[1]]
    for number in (2, 3, 4):
        batcher.add(held(number), ACKED)
    await asyncio.sleep(0)
    assert wire.sent == [[1]]
    wire.answer.set()
    await batcher.drained()
    assert wire.sent == [[1], [2, 3, 4]]
    assert wire.finished == [1, 2, 3, 4]


async def test_a_call_that_fails_is_repeated_without_those_whose_claims_are_lost():
    wire = Wire()
    wire.failures = 1
    batcher = idle(wire)
    one, two = held(1), held(2)
    batcher.add(one, ACKED)
    batcher.add(two, ACKED)
    await asyncio.sleep(0)
    one.lost = True
    wire.answer.set()
    await batcher.drained()
    assert wire.sent == [[1, 2], [2]]
    assert wire.finished == [2]


async def test_giving_up_leaves_nothing_running():
    wire = Wire()
    batcher = idle(wire)
    batcher.add(held(1), ACKED)
    await asyncio.sleep(0)
    await batcher.give_up()
    await batcher.drained()
    assert wire.finished == []


async def test_a_refused_outcome_holds_up_no_other():
    wire = Wire()
    wire.answer.set()
    wire.refuses = {2}
    batcher = idle(wire)
    later = Outcome(Verdict.RETRY, "later", timedelta(days=9999))
    for number in (1, 2, 3):
        batcher.add(held(number), later)
    batcher.add(held(4), ACKED)
    await batcher.drained()
    # Which one it was is found out; it is sent again without what was refused.
    assert sorted(wire.finished) == [1, 2, 3, 4]
    assert wire.sent[-1] != []


async def test_an_outcome_that_is_refused_whatever_it_says_is_given_up():
    wire = Wire()
    wire.answer.set()

    async def refuse(batch: list[Ended]) -> Answer:
        raise ValueError("no database was even asked")

    wire.settle = refuse  # type: ignore[method-assign]
    batcher = idle(wire)
    batcher.add(held(1), Outcome(Verdict.RETRY, "x", timedelta(seconds=1)))
    batcher.add(held(2), ACKED)
    await batcher.drained()
    assert sorted(wire.lost) == [1, 2]


def test_equal_outcomes_of_a_claim_travel_together_in_calls_of_a_bearable_size():
    wire = Wire()
    failed = Outcome(Verdict.RETRY, "ValueError: x", timedelta(seconds=1))
    same = Outcome(Verdict.RETRY, "ValueError: x", timedelta(seconds=1))
    batch = [(held(1), ACKED), (held(2), failed), (held(3), ACKED), (held(4), same)]
    batch += [(held(5), RELEASED), (held(6, token="another"), ACKED)]
    found = [[claim.id for claim, _ in members] for members in wire.batches(batch)]
    assert found == [[1, 3], [2, 4], [5], [6]]
    many = list(wire.batches([(held(number), ACKED) for number in range(2500)]))
    assert [len(members) for members in many] == [1000, 1000, 500]
