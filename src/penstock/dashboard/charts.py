"""Charts and the picture of topics and queues as geometry; the templates draw them as SVG."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.dashboard.text_filters import NOTHING, count, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.client.facts import Consumer, QueueNow
    from penstock.dashboard.samples import Sample, Samples

_PAD = 2.0
_HOURS = 2 * 3600
_DAYS = 86400


@dataclass(frozen=True, slots=True)
class Spark:
    """A line of a few dozen points without axes."""

    width: int
    height: int
    line: str
    area: str


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    style: str
    """The CSS class that colours it."""
    points: str
    area: str
    last: str


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    width: int
    height: int
    left: int
    bottom: int
    lines: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]

    @property
    def summary(self) -> str:
        """The picture as a text, for screen readers."""
        told = ", ".join(f"{line.name} now {line.last}" for line in self.lines)
        return f"{self.title}: {told}" if told else f"{self.title}: nothing yet"


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    style: str
    values: Sequence[float | None]


def spark(values: Sequence[float], width: int = 96, height: int = 24) -> Spark:
    top = max(values, default=0) or 1
    step = width / max(1, len(values) - 1)
    points = [
        (index * step, height - _PAD - value / top * (height - 2 * _PAD))
        for index, value in enumerate(values)
    ]
    line = _points(points)
    area = f"0,{height} {line} {points[-1][0]:.1f},{height}" if len(points) > 1 else ""
    return Spark(width, height, line, area)


def thinned(values: Sequence[float], most: int = 48) -> list[float]:
    """As many values as a small picture can show; each is the largest of those it stands for."""
    if len(values) <= most:
        return list(values)
    size = math.ceil(len(values) / most)
    return [max(values[start : start + size]) for start in range(0, len(values), size)]


def chart(
    title: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    *,
    label: Callable[[float], str],
    width: int = 640,
    height: int = 190,
) -> Chart:
    left, bottom, above = 52, 22, 10
    known = [value for each in series for value in each.values if value is not None]
    top = _round_up(max(known, default=0.0))
    begin, end = (times[0].timestamp(), times[-1].timestamp()) if times else (0.0, 1.0)
    reach = (end - begin) or 1.0

    def x(moment: datetime) -> float:
        return left + (moment.timestamp() - begin) / reach * (width - left - 4)

    def y(value: float) -> float:
        return above + (1 - value / top) * (height - bottom - above)

    lines = []
    for each in series:
        pairs = zip(times, each.values, strict=True)
        points = [(x(at), y(value)) for at, value in pairs if value is not None]
        text = _points(points)
        ground = height - bottom
        area = f"{points[0][0]:.1f},{ground} {text} {points[-1][0]:.1f},{ground}" if points else ""
        last = next((value for value in reversed(each.values) if value is not None), None)
        lines.append(
            Line(each.name, each.style, text, area, NOTHING if last is None else label(last))
        )
    return Chart(
        title,
        width,
        height,
        left,
        bottom,
        lines,
        [Tick(x(at), at.strftime(_clock(reach))) for at in _moments(begin, end)] if times else [],
        [Tick(y(top * part), label(top * part) if part else "0") for part in (0, 0.5, 1)],
    )


def _clock(seconds: float) -> str:
    return "%H:%M:%S" if seconds < _HOURS else "%H:%M" if seconds < _DAYS else "%d %b %H:%M"


def _moments(begin: float, end: float) -> list[datetime]:
    """Four moments at even distances, the first included."""
    return [datetime.fromtimestamp(begin + part * (end - begin) / 4, UTC) for part in range(4)]


def _round_up(value: float) -> float:
    """The next round number: 1, 2, 5, 10, 20 …"""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 5, 10) if step * unit >= value)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


# The picture of topics, queues and consumers: where each box stands and what joins them.

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
    """Topics on the left, their queues beside them, consumers on the right."""
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
        consuming = _consumers(consumers, queue, y)
        boxes.append(consuming)
        done = samples.rate(queue.name, "done")
        edges.append(_edge(box, consuming, done))
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


def _consumers(consumers: list[Consumer], queue: QueueNow, y: float) -> Box:
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
