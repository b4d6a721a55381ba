"""What sessions could do to each other, and the question that finds out.

Each has what stands there before, the scripts of the sessions, by the ways in which their
transactions may end, and a check of what they were told against what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from prove.interleavings.words import begin, commit, rollback

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from prove.interleavings.schedule import Script, Step
    from prove.interleavings.words import World

COMMITS, ROLLS_BACK = "commits", "rolls back"
ENDS: Mapping[str, Step] = {COMMITS: commit, ROLLS_BACK: rollback}


@dataclass(frozen=True)
class Scene:
    """A world with what was prepared in it, and how each transaction ends: the others commit."""

    world: World
    before: Any
    ends: Mapping[str, str]

    def end(self, who: str) -> Step:
        return ENDS[self.ends.get(who, COMMITS)]

    def kept(self, who: str, told: Any) -> Any:
        """What a session was told, if its transaction has committed."""
        return told if self.ends.get(who, COMMITS) == COMMITS else []


Told: TypeAlias = "Sequence[Sequence[Any]]"
"""What every step of each session returned."""


class Anomaly(Protocol):
    name: ClassVar[str]
    #: Transactions that may commit or roll back.
    open_ended: ClassVar[tuple[str, ...]]

    def prepare(self, world: World) -> Any: ...

    def scripts(self, scene: Scene) -> tuple[Script, ...]: ...

    def wrong(self, scene: Scene, told: Told) -> str | None: ...


def cases(anomaly: Anomaly) -> list[dict[str, str]]:
    """Every way in which the transactions may end."""
    names = anomaly.open_ended
    return [dict(zip(names, ends, strict=True)) for ends in product(ENDS, repeat=len(names))]


class AbortedRead:
    name: ClassVar[str] = "aborted read"
    open_ended: ClassVar[tuple[str, ...]] = ()

    def prepare(self, world: World) -> None:
        world.create()

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        claim = scene.world.claim("b")
        return (begin, scene.world.publish(), rollback), (begin, claim, claim, commit, claim)

    def wrong(self, scene: Scene, told: Told) -> str | None:
        _, first, second, _, third = told[1]
        claims = [first, second, third, scene.world.do(scene.world.claim("c"))]
        return "a claim got what was rolled back" if any(claims) else None


class AckAndExtend:
    name: ClassVar[str] = "lost update of ack and extend"
    open_ended: ClassVar[tuple[str, ...]] = ("ack", "extend")

    def prepare(self, world: World) -> int:
        world.create()
        world.do(world.publish())
        [message] = world.do(world.claim("t"))
        return int(message)

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        world, message = scene.world, scene.before
        return (
            (begin, world.ack(message, "t"), scene.end("ack")),
            (begin, world.extend(message, "t", 600), scene.end("extend")),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        message = scene.before
        acked = scene.kept("ack", told[0][1]) == [True]
        extended = scene.kept("extend", told[1][1]) == [message]
        state = scene.world.state(message)
        if state != ("done" if acked else "claimed"):
            return f"acked: {acked}, and {state}"
        if acked:
            return None
        longer = scene.world.ask(
            "select vt > penstock.clock() + interval '2 minutes' from penstock.queue_messages "
            "where message_id = %s",
            message,
        )
        return None if longer == [extended] else f"extended: {extended}, seen: {longer}"


class DoubleClaim:
    name: ClassVar[str] = "double claim"
    open_ended: ClassVar[tuple[str, ...]] = ("first", "second")

    def prepare(self, world: World) -> list[int]:
        world.create()
        return world.do(world.publish_many(2))

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        return (
            (begin, scene.world.claim("a", 1), scene.end("first")),
            (begin, scene.world.claim("b", 2), scene.end("second")),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        held = [*scene.kept("first", told[0][1]), *scene.kept("second", told[1][1])]
        held += scene.world.do(scene.world.claim("c"))
        return None if sorted(held) == scene.before else f"held in the end: {held}"


class DedupeRace:
    name: ClassVar[str] = "dedupe race"
    open_ended: ClassVar[tuple[str, ...]] = ("first", "second")

    def prepare(self, world: World) -> None:
        world.create()

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        once = scene.world.publish(dedupe_key="once")
        return (begin, once, scene.end("first")), (begin, once, scene.end("second"))

    def wrong(self, scene: Scene, told: Told) -> str | None:
        ids = {*scene.kept("first", told[0][1]), *scene.kept("second", told[1][1])}
        stored = scene.world.do(scene.world.claim("c"))
        right = ids == set(stored) and len(stored) <= 1
        return None if right else f"told {sorted(ids)}, stored {stored}"


class CapOverrun:
    """A message has two attempts; the second is there for whoever comes first."""

    name: ClassVar[str] = "cap overrun"
    open_ended: ClassVar[tuple[str, ...]] = ("first", "second")

    def prepare(self, world: World) -> None:
        world.create(max_delivery_attempts=2)
        world.do(world.publish())
        world.do(world.claim("gone", seconds=0))

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        return (
            (begin, scene.world.claim("a", seconds=0), scene.end("first")),
            (begin, scene.world.claim("b", seconds=0), scene.end("second")),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        world = scene.world
        later = [*scene.kept("first", told[0][1]), *scene.kept("second", told[1][1])]
        later += world.do(world.claim("c", seconds=0))
        last = world.do(world.claim("d", seconds=0))
        dead = world.ask(
            "select delivery_attempts from penstock.dead_letter_queue where queue_name = %s",
            world.queue(),
        )
        right = len(later) == 1 and not last and dead == [2]
        return None if right else f"attempts after the first: {later}, {last}; dead with {dead}"


class OrderInversion:
    name: ClassVar[str] = "order inversion"
    open_ended: ClassVar[tuple[str, ...]] = ("ack",)

    def prepare(self, world: World) -> tuple[int, int]:
        world.create(ordering="fifo")
        [first] = world.do(world.publish(key="k"))
        [second] = world.do(world.publish(key="k"))
        world.do(world.claim("t"))
        return int(first), int(second)

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        claim = scene.world.claim("b")
        return (
            (begin, scene.world.ack(scene.before[0], "t"), scene.end("ack")),
            (claim, begin, claim, commit, claim),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        first, _, second, _, third = told[1]
        got = [*first, *second, *third, *scene.world.do(scene.world.claim("c"))]
        wanted = scene.kept("ack", [scene.before[1]])
        return None if got == wanted else f"the ack {scene.ends['ack']}, then came {got}"


class HalfVisibleBatch:
    name: ClassVar[str] = "half-visible batch"
    open_ended: ClassVar[tuple[str, ...]] = ("batch",)

    def prepare(self, world: World) -> None:
        world.create()

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        world, claim = scene.world, scene.world.claim("b")
        return (
            (begin, world.publish_many(3), world.publish(), scene.end("batch")),
            (begin, claim, commit, claim),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        ids = scene.kept("batch", [*told[0][1], *told[0][2]])
        claims = [told[1][1], told[1][3], scene.world.do(scene.world.claim("c"))]
        found = [claim for claim in claims if claim]
        return None if found == ([ids] if ids else []) else f"{ids} came as {claims}"


class TornFanOut:
    name: ClassVar[str] = "torn fan-out"
    open_ended: ClassVar[tuple[str, ...]] = ("publish",)

    def prepare(self, world: World) -> None:
        world.create(queues=2)

    def scripts(self, scene: Scene) -> tuple[Script, Script]:
        one, other = scene.world.claim("b"), scene.world.claim("b", queue=1)
        return (begin, scene.world.publish(), scene.end("publish")), (one, other, one, other)

    def wrong(self, scene: Scene, told: Told) -> str | None:
        world, claims = scene.world, told[1]
        if claims[0] and not claims[1]:
            return "seen by one queue, then not by the other"
        one = [*claims[0], *claims[2], *world.do(world.claim("c"))]
        other = [*claims[1], *claims[3], *world.do(world.claim("c", queue=1))]
        wanted = scene.kept("publish", told[0][1])
        return None if one == other == wanted else f"one queue got {one}, the other {other}"


ANOMALIES: tuple[Anomaly, ...] = (
    AbortedRead(),
    AckAndExtend(),
    DoubleClaim(),
    DedupeRace(),
    CapOverrun(),
    OrderInversion(),
    HalfVisibleBatch(),
    TornFanOut(),
)
