"""Emptying a large backlog: the cost must not depend on what is left."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench import work
from bench.courses import go_the_course
from bench.model import Case

if TYPE_CHECKING:
    from bench.arena import Arena, Lane
    from bench.measure import Stopwatch
    from bench.model import Result


@dataclass(frozen=True)
class Drain:
    name: ClassVar[str] = "drain"
    title: ClassVar[str] = "Drain a backlog"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (Case("batch 100", batch=100),)

    def messages(self, arena: Arena) -> int:
        return arena.sizes.backlog

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:
        lane.preload(messages, arena.sizes)
        lane.vacuum()

    def disturbance(self, lane: Lane) -> AbstractContextManager[None]:  # noqa: ARG002
        return nullcontext()

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        work.claim_and_ack(lane, messages, watch)

    def run(self, arena: Arena) -> list[Result]:
        return go_the_course(self, arena)
