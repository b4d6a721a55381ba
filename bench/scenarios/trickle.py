"""A queue that is nearly empty: publish one message, claim it, ack it, one under way at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench.ledger import DeliveryError
from bench.model import Case
from bench.turns import take_turns

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.measure import Stopwatch
    from bench.model import Result


@dataclass(frozen=True)
class Trickle:
    name: ClassVar[str] = "trickle"
    title: ClassVar[str] = "A queue that is nearly empty: publish one, claim one, ack one"
    claims: ClassVar[bool] = True
    cases: ClassVar[tuple[Case, ...]] = (Case("one message under way"),)

    def messages(self, case: Case, arena: Arena) -> int:  # noqa: ARG002
        return arena.sizes.calls

    def units(self, case: Case, messages: int) -> int:  # noqa: ARG002
        return messages

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:
        """Nothing: each message is published when the one before is acked."""

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        for payload in lane.stream.take(messages):
            watch.start()
            lane.session.publish_one(payload)
            lane.session.settle()
            claim = lane.session.claim(1)
            if len(claim) != 1:
                raise DeliveryError(f"{lane.contestant.name}: message {payload.number} is missing")
            lane.session.ack(claim)
            watch.stop()
            lane.ledger.note(claim.numbers)

    def run(self, arena: Arena) -> list[Result]:
        return take_turns(self, arena)
