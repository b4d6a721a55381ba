"""Acks are sent at once when nothing is under way, and gathered when something is."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.errors import DatabaseUnavailable
from penstock.models import ClaimedMessage, MessageId
from penstock.worker.acks import Settler, grouped
from penstock.worker.claims import Held
from penstock.worker.outcomes import ACKED, RELEASED, Outcome, Verdict

if TYPE_CHECKING:
    from penstock.worker.acks import Answer

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def held(number: int, key: str | None = None) -> Held:
    return Held(ClaimedMessage(MessageId(number), None, None, key, 0, 1, NOW, NOW, None, None), 0.0)


class Wire:
    """A line to a database that answers when the test says so."""

    def __init__(self) -> None:
        self.sent: list[list[int]] = []
        self.finished: list[int] = []
        self.answer = asyncio.Event()
        self.failures = 0

    async def send(self, outcome: Outcome, ids: list[MessageId]) -> Answer:
        self.sent.append(list(ids))
        await self.answer.wait()
        if self.failures:
            self.failures -= 1
            raise DatabaseUnavailable("away")
        return dict.fromkeys(ids, False)

    def done(self, batch: list[Held], outcome: Outcome, kept: Answer) -> None:
        self.finished += [each.id for each in batch]


def idle(wire: Wire) -> Settler:
    """Of a worker in which no message waits."""
    return Settler(wire.send, wire.done, enough=25, busy=lambda: False)


def busy(wire: Wire) -> Settler:
    """Of a worker in which more messages wait than it can handle."""
    wire.answer.set()
    return Settler(wire.send, wire.done, enough=4, busy=lambda: True)


async def test_while_messages_wait_acks_gather_for_a_moment():
    wire = Wire()
    settler = busy(wire)
    for number in (1, 2, 3):
        settler.add(held(number), ACKED)
        await asyncio.sleep(0)
    assert wire.sent == []
    await settler.drained()
    assert wire.sent == [[1, 2, 3]]


async def test_acks_that_are_enough_leave_at_once():
    wire = Wire()
    settler = busy(wire)
    for number in (1, 2, 3, 4):
        settler.add(held(number), ACKED)
    await asyncio.sleep(0)
    assert wire.sent == [[1, 2, 3, 4]]


@pytest.mark.parametrize(
    "one", [(held(2, "key"), ACKED), (held(2), RELEASED)], ids=["a key", "no ack"]
)
async def test_what_the_queue_waits_for_leaves_at_once(one: tuple[Held, Outcome]):
    wire = Wire()
    settler = busy(wire)
    settler.add(held(1), ACKED)
    await asyncio.sleep(0)
    settler.add(*one)
    for _turn in range(4):
        await asyncio.sleep(0)
    assert [number for call in wire.sent for number in call] == [1, 2]


async def test_the_first_ack_leaves_at_once_and_the_others_together_after_it():
    wire = Wire()
    settler = idle(wire)
    settler.add(held(1), ACKED)
    await asyncio.sleep(0)
    assert wire.sent == [[1]]
    for number in (2, 3, 4):
        settler.add(held(number), ACKED)
    await asyncio.sleep(0)
    assert wire.sent == [[1]]
    wire.answer.set()
    await settler.drained()
    assert wire.sent == [[1], [2, 3, 4]]
    assert wire.finished == [1, 2, 3, 4]


async def test_a_call_that_fails_is_repeated_without_those_whose_claims_are_lost():
    wire = Wire()
    wire.failures = 1
    settler = idle(wire)
    one, two = held(1), held(2)
    settler.add(one, ACKED)
    settler.add(two, ACKED)
    await asyncio.sleep(0)
    one.lost = True
    wire.answer.set()
    await settler.drained()
    assert wire.sent == [[1, 2], [2]]
    assert wire.finished == [2]


async def test_giving_up_leaves_nothing_running():
    wire = Wire()
    settler = idle(wire)
    settler.add(held(1), ACKED)
    await asyncio.sleep(0)
    await settler.give_up()
    await settler.drained()
    assert wire.finished == []


def test_equal_outcomes_travel_together_in_calls_of_a_bearable_size():
    failed = Outcome(Verdict.RETRY, "ValueError: x", timedelta(seconds=1))
    same = Outcome(Verdict.RETRY, "ValueError: x", timedelta(seconds=1))
    batch = [(held(1), ACKED), (held(2), failed), (held(3), ACKED), (held(4), same)]
    batch += [(held(5), RELEASED)]
    found = [(outcome, [each.id for each in members]) for outcome, members in grouped(batch)]
    assert found == [(ACKED, [1, 3]), (failed, [2, 4]), (RELEASED, [5])]
    many = list(grouped([(held(number), ACKED) for number in range(2500)]))
    assert [len(members) for _, members in many] == [1000, 1000, 500]
