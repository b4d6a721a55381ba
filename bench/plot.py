"""The results as one picture: bars for scenarios with rounds, lines for courses."""

from __future__ import annotations

import math
from dataclasses import asdict
from itertools import accumulate
from typing import TYPE_CHECKING

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from bench.model import Result

COLUMNS = 2
PANEL_INCHES = (8.0, 4.2)
COLOURS: Mapping[str, str] = {
    "penstock": "#0b6e99",
    "penstock-next": "#3a93b8",
    "penstock-sync": "#6db6d4",
    "textbook": "#b5541c",
    "textbook-fn": "#d98b5f",
    "textbook-sync": "#ecc1a6",
    "textbook-hot": "#8c3d10",
    "pgmq": "#a3324a",
    "pgqueuer": "#6a4c93",
    "procrastinate": "#3f8f4f",
    "pgq": "#8a8a8a",
    "chancy": "#c9a227",
    "awa": "#c2185b",
    "pg-boss": "#5d7052",
    "graphile-worker": "#37474f",
}


def draw(file: Path, titles: Mapping[str, str], results: Sequence[Result], about: str) -> None:
    shown = [name for name in titles if any(_of(name, results))]
    rows = math.ceil(len(shown) / COLUMNS)
    size = (PANEL_INCHES[0] * COLUMNS, PANEL_INCHES[1] * rows)
    figure, grid = plt.subplots(rows, COLUMNS, figsize=size, squeeze=False, layout="constrained")
    panels = list(grid.flat)
    for axes, name in zip(panels, shown, strict=False):
        _panel(axes, titles[name], _of(name, results))
    for axes in panels[len(shown) :]:
        axes.set_axis_off()
    figure.suptitle(about)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _of(scenario: str, results: Sequence[Result]) -> list[Result]:
    return [result for result in results if result.scenario == scenario and result.samples]


def _panel(axes: Axes, title: str, results: Sequence[Result]) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_yscale("log")
    axes.set_ylabel("backend CPU, µs per message")
    if any(result.course for result in results):
        _lines(axes, results)
    elif _grows(results):
        _curve(axes, results)
    elif any(result.case.paced for result in results):
        axes.set_ylabel("latency, ms")
        _bars(axes, {result.contestant: _latency(result) for result in results})
    elif results[0].scenario == "jobs":
        axes.set_ylabel("jobs per second")
        _bars(axes, _by_case(results, lambda result: result.rate))
    else:
        _bars(axes, _by_case(results, lambda result: result.cpu_us))
    axes.legend(fontsize=7, ncols=7, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    axes.grid(axis="y", which="major", alpha=0.3)


def _lines(axes: Axes, results: Sequence[Result]) -> None:
    axes.set_xlabel("messages so far")
    for result in results:
        done = list(accumulate(sample.messages for sample in result.samples))
        costs = [sample.cpu_us for sample in result.samples]
        colour = COLOURS.get(result.contestant)
        axes.plot(done, costs, marker=".", label=result.contestant, color=colour)


def _grows(results: Sequence[Result]) -> bool:
    """Whether the cases differ in one quantity, so that a line can join them."""
    cases = {result.case for result in results}
    return len(cases) > 1 and len({case.at for case in cases}) == len(cases)


def _curve(axes: Axes, results: Sequence[Result]) -> None:
    """Cost over what grows from case to case."""
    axes.set_xscale("log")
    for name in dict.fromkeys(result.contestant for result in results):
        own = [result for result in results if result.contestant == name]
        costs = [result.cpu_us or 0 for result in own]
        places = [result.case.at or 0 for result in own]
        axes.plot(places, costs, marker=".", label=name, color=COLOURS.get(name))
    # Room above and below, or a curve that is flat would look steep.
    low, high = axes.get_ylim()
    axes.set_ylim(low / 3, high * 3)


def _latency(result: Result) -> dict[str, float]:
    latency = result.latency
    return asdict(latency) if latency else {}


def _by_case(
    results: Sequence[Result], figure: Callable[[Result], float | None]
) -> dict[str, dict[str, float]]:
    """A figure by contestant and case."""
    found: dict[str, dict[str, float]] = {}
    for result in results:
        found.setdefault(result.contestant, {})[result.case.label] = figure(result) or 0
    return found


def _bars(axes: Axes, values: Mapping[str, Mapping[str, float]]) -> None:
    """A group of bars for each label, a bar in it for each contestant."""
    groups = list(dict.fromkeys(label for own in values.values() for label in own))
    width = 0.85 / len(values)
    for place, (name, own) in enumerate(values.items()):
        offset = (place - len(values) / 2 + 0.5) * width
        at = [groups.index(label) + offset for label in own]
        bars = axes.bar(at, list(own.values()), width, label=name, color=COLOURS.get(name))
        axes.bar_label(bars, fmt=_figure, fontsize=6, rotation=90, padding=2)
    axes.set_xticks(range(len(groups)), [group.replace(", ", "\n") for group in groups])
    axes.margins(y=0.25)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
