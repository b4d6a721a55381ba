"""The picture of topics, queues and consumers: where each box stands and what joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.dashboard.words import count, rate

if TYPE_CHECKING:
    from penstock.client.facts import Consumer, QueueNow
    from penstock.dashboard.samples import Sample, Samples

MOST_QUEUES = 40
_ROW = 46
_BOX = 34
_COLUMNS = (10, 320, 630)
_WIDTH = 220
_LONGEST = 26
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Box:
    kind: str
    name: str
    shown: str
    detail: str
    x: int
    y: float

    @property
    def middle(self) -> float:
        return self.y + _BOX / 2


@dataclass(frozen=True, slots=True)
class Edge:
    path: str
    weight: float
    is_live: bool


@dataclass(frozen=True, slots=True)
class Picture:
    width: int
    height: int
    box_width: int
    box_height: int
    boxes: list[Box]
    edges: list[Edge]
    left_out: int


def picture(sample: Sample, samples: Samples) -> Picture:
    """Topics on the left, their queues beside them, who consumes on the right."""
    consumers = samples.consumers()
    queues = sorted(sample.queues.values(), key=lambda each: (each.topic, each.name))
    shown = queues[:MOST_QUEUES]
    boxes: list[Box] = []
    edges: list[Edge] = []
    by_topic: dict[str, list[Box]] = {}
    for row, queue in enumerate(shown):
        y = 10.0 + row * _ROW
        box = Box("queue", queue.name, _short(queue.name), _queue_detail(queue), _COLUMNS[1], y)
        boxes.append(box)
        by_topic.setdefault(queue.topic, []).append(box)
        people = _people(consumers, queue, y)
        boxes.append(people)
        done = samples.rate(queue.name, "done")
        edges.append(_edge(box, people, done))
    for topic, its in by_topic.items():
        speed = samples.topic_rate(topic)
        y = (its[0].y + its[-1].y) / 2
        box = Box("topic", topic, _short(topic), f"{rate(speed)}/s published", _COLUMNS[0], y)
        boxes.append(box)
        edges += [_edge(box, each, speed) for each in its]
    height = 20 + max(1, len(shown)) * _ROW
    return Picture(860, height, _WIDTH, _BOX, boxes, edges, len(queues) - len(shown))


def _queue_detail(queue: QueueNow) -> str:
    paused = "paused, " if queue.paused_at else ""
    blocked = f", {count(queue.blocked)} blocked" if queue.blocked else ""
    return f"{paused}{count(queue.waiting)} waiting{blocked}"


def _people(consumers: list[Consumer], queue: QueueNow, y: float) -> Box:
    mine = [each for each in consumers if each.queue == queue.name]
    busy = sum(1 for each in mine if each.claimed)
    if not mine:
        return Box("unattended", queue.name, "no consumer", "no claim, none waits", _COLUMNS[2], y)
    tokens = ", ".join(each.token or "without a name" for each in mine[:_NAMED])
    shown = _short(tokens) if len(mine) == 1 else f"{len(mine)} consumers"
    return Box("consumers", tokens, shown, f"{busy} busy, {len(mine) - busy} idle", _COLUMNS[2], y)


def _edge(start: Box, end: Box, speed: float) -> Edge:
    x1, x2 = start.x + _WIDTH, end.x
    bend = (x2 - x1) / 2
    path = (
        f"M{x1},{start.middle:.1f} C{x1 + bend:.0f},{start.middle:.1f} "
        f"{x2 - bend:.0f},{end.middle:.1f} {x2},{end.middle:.1f}"
    )
    # Ten times as much is one step thicker.
    weight = 1.0 + (len(str(int(speed))) if speed >= 1 else 0)
    return Edge(path, min(weight, 6.0), speed > 0)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
