"""How the cost of a claim and its ack grows: with the batch, the backlog, the queues, the keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from bench import work
from bench.contestants import kind
from bench.model import Case
from bench.turns import take_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.arena import Arena, Lane
    from bench.measure import Stopwatch
    from bench.model import Result

BATCH = 10
#: Those whose cost is a question of their shape, not of a library around it.
CONTESTANTS = ("penstock", "textbook")


@dataclass(frozen=True)
class Curve:
    """Claim and ack from a backlog; what grows is in the case."""

    name: str
    title: str
    cases: Sequence[Case]
    claims: ClassVar[bool] = False

    def messages(self, case: Case, arena: Arena) -> int:
        return arena.sizes.messages_for(case.batch)

    def units(self, case: Case, messages: int) -> int:  # noqa: ARG002
        return messages

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:
        # What stays when a round is over is laid down before the first.
        standing = 0 if lane.stream.following else min(lane.case.backlog, arena.sizes.backlog)
        lane.preload(messages + standing, arena.sizes)

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        work.claim_and_ack(lane, messages, watch)

    def run(self, arena: Arena) -> list[Result]:
        chosen = [each for each in arena.contestants if kind(each) in CONTESTANTS]
        return take_turns(self, replace(arena, contestants=chosen))


CURVES: tuple[Curve, ...] = (
    Curve(
        "by-batch",
        "Claim and ack, by the size of the batch",
        [Case(f"batch {n}", batch=n, at=n) for n in (1, 3, 10, 30, 100, 300, 1_000)],
    ),
    Curve(
        "by-backlog",
        "Claim and ack in tens, by the backlog behind",
        [Case(f"{n:,} behind", batch=BATCH, backlog=n, at=n) for n in (10**3, 10**4, 10**5, 10**6)],
    ),
    Curve(
        "by-queues",
        "Claim and ack in tens on one queue, by the queues on its topic",
        [Case(f"{n} queues", batch=BATCH, queues=n, at=n) for n in (1, 10, 50)],
    ),
    Curve(
        "by-keys",
        "Claim and ack in tens on a fifo queue, by the number of keys",
        [Case(f"{n:,} keys", batch=BATCH, keys=n, at=n) for n in (100, 1_000, 10_000, 100_000)],
    ),
)
