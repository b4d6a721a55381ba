"""The tables of the page, with a bar for what counts most."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from penstock.spark.pipelines.report.axes import colour
from penstock.spark.pipelines.report.scales import count, duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.pipelines.report.model import Group, Reason, Report

_MANY = 15


def reasons(found: Sequence[Reason], report: Report) -> str:
    """Why attempts failed, the most frequent first."""
    most = max(each.count for each in found)
    rows = [
        f"<tr><td><code>{escape(each.error)}</code></td>"
        f"<td>{_queue(each.queue, report)}</td>"
        f'<td class="n">{count(each.count)}</td>{_bar(each.count, most, "bad")}'
        f'<td class="n">{count(each.messages)}</td>'
        f'<td class="n">{each.last_at:%-d %b %H:%M:%S}</td></tr>'
        for each in found[:_MANY]
    ]
    head = (
        '<th>reason</th><th>queue</th><th class="n">attempts</th><th></th>'
        '<th class="n">messages</th><th class="n">last</th>'
    )
    return _table(head, rows, len(found))


def groups(word: str, found: Sequence[Group], report: Report) -> str:
    """Keys or tenants, each in its queue."""
    most = max(each.finished for each in found)
    rows = [
        f"<tr><td>{_name(each.name)}</td><td>{_queue(each.queue, report)}</td>"
        f'<td class="n">{count(each.finished)}</td>'
        f"{_bar(each.finished, most, _colour_of(each.queue, report))}"
        f'<td class="n">{duration(each.end_to_end.p50)}</td>'
        f'<td class="n">{duration(each.end_to_end.p99)}</td>'
        f'<td class="n">{count(each.failures)}</td><td class="n">{count(each.dead)}</td></tr>'
        for each in found[:_MANY]
    ]
    head = (
        f'<th>{word}</th><th>queue</th><th class="n">finished</th><th></th><th class="n">p50</th>'
        '<th class="n">p99</th><th class="n">failed</th><th class="n">dead</th>'
    )
    return _table(head, rows, len(found))


def _table(head: str, rows: list[str], found: int) -> str:
    more = (
        f'<p class="none">… and {found - len(rows)} more, in the tables below</p>'
        if found > len(rows)
        else ""
    )
    table = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table>{table}</table></div>{more}'


def _bar(part: float, whole: float, class_: str) -> str:
    width = 100 * part / whole if whole else 0
    return f'<td class="bar"><i class="{class_}" style="width:{width:.1f}%"></i></td>'


def _name(name: str | None) -> str:
    return '<span class="none">none</span>' if name is None else escape(name)


def _queue(queue: str, report: Report) -> str:
    return f'<span class="chip inline {_colour_of(queue, report)}"></span> {escape(queue)}'


def _colour_of(queue: str, report: Report) -> str:
    names = [each.queue for each in report.queues]
    return colour(names.index(queue)) if queue in names else "calm"
