"""One topic, ten queues or fifty: what publishing costs, and what each delivery costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench import work
from bench.model import Case
from bench.turns import take_turns

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.measure import Stopwatch
    from bench.model import Result

MANY = 10
MORE = 50


@dataclass(frozen=True)
class FanOutPublish:
    name: ClassVar[str] = "fan-out"
    title: ClassVar[str] = "Fan-out: publish to a topic with one queue, ten and fifty"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (
        Case("batch 1, 1 queue", claims=False),
        Case("batch 1, 10 queues", queues=MANY, claims=False),
        Case("batch 100, 1 queue", batch=100, claims=False),
        Case("batch 100, 10 queues", batch=100, queues=MANY, claims=False),
        Case("batch 100, 50 queues", batch=100, queues=MORE, claims=False),
    )

    def messages(self, case: Case, arena: Arena) -> int:
        return arena.sizes.messages_for(case.batch)

    def units(self, case: Case, messages: int) -> int:  # noqa: ARG002
        return messages

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:
        """Nothing: the log only grows."""

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        work.publish(lane, messages, watch)

    def run(self, arena: Arena) -> list[Result]:
        return take_turns(self, arena)


@dataclass(frozen=True)
class FanOutClaim:
    """Costs are per delivery: ten queues deliver every message ten times."""

    name: ClassVar[str] = "fan-out-claim"
    title: ClassVar[str] = "Fan-out: claim and ack on every queue, per delivery"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (
        Case("batch 10, 1 queue", batch=10),
        Case("batch 10, 10 queues", batch=10, queues=MANY),
    )

    def messages(self, case: Case, arena: Arena) -> int:
        """As many deliveries, and no fewer than a batch for each queue."""
        return max(case.batch, arena.sizes.messages_for(case.batch) // case.queues)

    def units(self, case: Case, messages: int) -> int:
        return messages * case.queues

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:
        lane.preload(messages, arena.sizes)

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        for queue in range(lane.case.queues):
            work.claim_and_ack(lane, messages, watch, queue)

    def run(self, arena: Arena) -> list[Result]:
        return take_turns(self, arena)
