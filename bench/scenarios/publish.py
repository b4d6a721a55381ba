"""Publishing one message a call, and a hundred."""

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
class Publish:
    name: ClassVar[str] = "publish"
    title: ClassVar[str] = "Publish, one and a hundred messages a call"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (
        Case("batch 1", claims=False),
        Case("batch 100", batch=100, claims=False),
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
