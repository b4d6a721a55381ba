"""Claim and ack from a backlog, in batches of 1, 10 and 100."""

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


@dataclass(frozen=True)
class ClaimAck:
    name: ClassVar[str] = "claim-ack"
    title: ClassVar[str] = "Claim and ack"
    claims: ClassVar[bool] = True
    cases: ClassVar[tuple[Case, ...]] = (
        Case("batch 1"),
        Case("batch 10", batch=10),
        Case("batch 100", batch=100),
    )

    def messages(self, case: Case, arena: Arena) -> int:
        return arena.sizes.messages_for(case.batch)

    def units(self, case: Case, messages: int) -> int:  # noqa: ARG002
        return messages

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:
        lane.preload(messages, arena.sizes)

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        work.claim_and_ack(lane, messages, watch)

    def run(self, arena: Arena) -> list[Result]:
        return take_turns(self, arena)
