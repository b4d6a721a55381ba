"""Sessions that claim beside each other, from slices and from the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from prove.interleavings.anomalies import COMMITS
from prove.interleavings.words import begin, together

if TYPE_CHECKING:
    from prove.interleavings.anomalies import Anomaly, Scene, Told
    from prove.interleavings.schedule import Script
    from prove.interleavings.words import World


def _sliced(world: World, count: int, cuts: int = 1) -> list[int]:
    """A queue with slices: each has three messages left, and the setup holds one of each."""
    world.create()
    ids: list[int] = world.do(world.publish_many(count))
    for number in range(cuts):
        # The next one cuts a slice of its own while this one is in use.
        _used(world, "1 minute")
        world.do(world.come_alone())
        world.do(world.cut(f"setup {number}"))
    _used(world, "-1 minute")
    found = world.ask(
        "select c.first_id from penstock_data.claims c "
        "join penstock_data.queues q on q.id = c.queue_id where q.name = %s and c.token = ''",
        world.queue(),
    )
    if len(found) != cuts:
        raise LookupError(f"{cuts} slices were to be cut, and there are {len(found)}")
    return ids


def _used(world: World, moved: str) -> None:
    """The slices were used last at this moment, or so much later or earlier."""
    world.ask(
        "update penstock_data.claims c set claimed_at = penstock_data.clock() + %s::interval "
        "from penstock_data.queues q where q.id = c.queue_id and q.name = %s and c.token = ''",
        moved,
        world.queue(),
    )


def _accounted(scene: Scene, held: list[Any]) -> str | None:
    """Every message is held once: by the setup, by a session that committed, or by the last."""
    world = scene.world
    before = world.ask(
        "select unnest(c.message_ids) from penstock_data.claims c "
        "join penstock_data.queues q on q.id = c.queue_id "
        "where q.name = %s and c.token like 'setup%%'",
        world.queue(),
    )
    every = [*before, *held, *world.drain("last")]
    return None if sorted(every) == scene.before else f"held in the end: {every}"


class BesideEachOther:
    """Two sessions that used the same slice last."""

    name: ClassVar[str] = "double claim from a slice"
    open_ended: ClassVar[tuple[str, ...]] = ("first", "second")

    def prepare(self, world: World) -> list[int]:
        return _sliced(world, 8)

    def scripts(self, scene: Scene) -> tuple[Script, ...]:
        beside = together(scene.world.come_beside(), begin)
        return (
            (beside, scene.world.claim("a", 1), scene.end("first")),
            # More than the slice has left, so it is deleted and the rest comes from elsewhere.
            (beside, scene.world.claim("b", 4), scene.end("second")),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        return _accounted(
            scene, [*scene.kept("first", told[0][1]), *scene.kept("second", told[1][1])]
        )


class ThreeConsumers:
    """Two sessions beside each other with a slice each, and one that comes by the claim lock."""

    name: ClassVar[str] = "double claim of three sessions"
    open_ended: ClassVar[tuple[str, ...]] = ("first", "second", "third")

    def prepare(self, world: World) -> list[int]:
        return _sliced(world, 12, cuts=2)

    def scripts(self, scene: Scene) -> tuple[Script, ...]:
        world = scene.world
        return (
            (together(world.come_beside(1), begin, world.claim_one("a")), scene.end("first")),
            (together(world.come_beside(2), begin, world.claim("b", 4)), scene.end("second")),
            (together(world.come_alone(), begin, world.claim("c", 2)), scene.end("third")),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        kept = [
            message
            for who, session in zip(("first", "second", "third"), told, strict=True)
            for message in scene.kept(who, session[0])
        ]
        return _accounted(scene, kept)


class ThreeConsumersInShort(ThreeConsumers):
    """Only one of the three may roll back."""

    open_ended: ClassVar[tuple[str, ...]] = ("third",)


class PutBack:
    """Housekeeping puts a slice back while a session takes from it."""

    name: ClassVar[str] = "slice put back and claimed"
    open_ended: ClassVar[tuple[str, ...]] = ("claim", "housekeeping")

    def prepare(self, world: World) -> list[int]:
        return _sliced(world, 6)

    def scripts(self, scene: Scene) -> tuple[Script, ...]:
        world = scene.world
        beside = together(world.come_beside(), begin)
        return (
            (beside, world.claim("a", 2), scene.end("claim")),
            (begin, world.end_slices(), scene.end("housekeeping")),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        return _accounted(scene, scene.kept("claim", told[0][1]))


class Paused:
    """A pause ends the slices; what was claimed before it stays claimed."""

    name: ClassVar[str] = "claim after a pause"
    open_ended: ClassVar[tuple[str, ...]] = ("claim", "pause")

    def prepare(self, world: World) -> list[int]:
        return _sliced(world, 6)

    def scripts(self, scene: Scene) -> tuple[Script, ...]:
        world = scene.world
        claim = together(world.come_beside(), world.claim("b", 1))
        return (
            (together(world.come_beside(), begin), world.claim("a", 2), scene.end("claim"), claim),
            (begin, world.pause(), scene.end("pause")),
        )

    def wrong(self, scene: Scene, told: Told) -> str | None:
        world = scene.world
        held = [*scene.kept("claim", told[0][1]), *told[0][3]]
        if scene.ends["pause"] == COMMITS:
            if world.do(world.claim("late")):
                return "claimed although the queue is paused"
            later = world.ask(
                "select c.token from penstock_data.claims c "
                "join penstock_data.queues q on q.id = c.queue_id "
                "where q.name = %s and c.claimed_at > q.paused_at",
                world.queue(),
            )
            if later:
                return f"claimed after the pause: {later}"
            world.ask("select penstock.resume_queue(%s)", world.queue())
        return _accounted(scene, held)


OF_TWO: tuple[Anomaly, ...] = (BesideEachOther(), PutBack(), Paused())
SLICES: tuple[Anomaly, ...] = (*OF_TWO, ThreeConsumers())
SLICES_IN_SHORT: tuple[Anomaly, ...] = (*OF_TWO, ThreeConsumersInShort())
