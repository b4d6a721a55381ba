"""Every order of every case of an anomaly, each on queues of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from prove.interleavings.anomalies import Scene, cases
from prove.interleavings.schedule import Refused, orders, play
from prove.interleavings.words import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prove.interleavings.anomalies import Anomaly
    from prove.interleavings.schedule import Session

_worlds = count(1)


@dataclass
class Searched:
    """How many orders were played, and what was wrong in which."""

    anomaly: str
    played: int = 0
    found: list[str] = field(default_factory=list)


def search(anomaly: Anomaly, db: Session, sessions: Sequence[Session]) -> Searched:
    """Play every order in every case."""
    searched = Searched(anomaly.name)
    for ends in cases(anomaly):
        lengths = [len(script) for script in anomaly.scripts(_scene(anomaly, db, ends))]
        for order in orders(*lengths):
            searched.played += 1
            if fault := _played(anomaly, _scene(anomaly, db, ends), order, sessions):
                searched.found.append(f"{ends} {''.join(map(str, order))}: {fault}")
    return searched


def _played(
    anomaly: Anomaly, scene: Scene, order: Sequence[int], sessions: Sequence[Session]
) -> str | None:
    scripts = anomaly.scripts(scene)
    told = play(order, scripts, sessions[: len(scripts)], scene.world.db)
    refused = [step for session in told for step in session if isinstance(step, Refused)]
    return f"refused: {refused}" if refused else anomaly.wrong(scene, told)


def _scene(anomaly: Anomaly, db: Session, ends: dict[str, str]) -> Scene:
    world = World(db, f"anomaly {next(_worlds)}")
    return Scene(world, anomaly.prepare(world), ends)
