"""Publish, claim and ack in tens, with messages of 200 bytes, ten kilobytes and a megabyte."""

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

BATCH = 10
#: Bytes of payload in a round, for messages too large to send as many of as of small ones.
ROUND_BYTES = 40_000_000


def _case(label: str, size: int) -> Case:
    return Case(label, batch=BATCH, payload=size, at=size)


@dataclass(frozen=True)
class PayloadSize:
    name: ClassVar[str] = "payload"
    title: ClassVar[str] = "Publish, claim and ack in tens, by the size of the payload"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (
        _case("200 B", 200),
        _case("10 kB", 10_000),
        _case("1 MB", 1_000_000),
    )

    def messages(self, case: Case, arena: Arena) -> int:
        most = max(1, ROUND_BYTES // case.payload // BATCH) * BATCH
        return min(most, arena.sizes.messages_for(BATCH))

    def units(self, case: Case, messages: int) -> int:  # noqa: ARG002
        return messages

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:
        """Nothing: a round publishes what it claims."""

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        work.pass_through(lane, messages, watch)

    def run(self, arena: Arena) -> list[Result]:
        return take_turns(self, arena)
