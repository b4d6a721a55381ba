"""Publish, claim, ack in batches of ten: while another session holds a snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from bench import disturbances, work
from bench.courses import go_the_course
from bench.model import Case

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from bench.arena import Arena, Lane
    from bench.measure import Stopwatch
    from bench.model import Result


@dataclass(frozen=True)
class HeldSnapshot:
    name: ClassVar[str] = "held-snapshot"
    title: ClassVar[str] = "While another session holds a snapshot: publish, claim and ack"
    claims: ClassVar[bool] = False
    cases: ClassVar[tuple[Case, ...]] = (Case("batch 10", batch=10),)

    def messages(self, arena: Arena) -> int:
        return arena.sizes.course

    def prepare(self, lane: Lane, messages: int, arena: Arena) -> None:  # noqa: ARG002
        work.settle_in(lane, arena.sizes)

    def disturbance(self, lane: Lane) -> AbstractContextManager[None]:
        return disturbances.held_snapshot(lane.dsn)

    def work(self, lane: Lane, messages: int, watch: Stopwatch) -> None:
        work.pass_through(lane, messages, watch)

    def run(self, arena: Arena) -> list[Result]:
        return go_the_course(self, arena)
