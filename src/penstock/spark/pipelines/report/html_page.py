"""The report as one HTML file: no script, nothing fetched, light or dark as the reader has it."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.pipelines.report import plots
from penstock.spark.pipelines.report.axes import colour, count, duration, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.pipelines.report.report_model import Group, QueueFigures, Reason, Report

# Nothing may be loaded or run, whatever a queue is called.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# With fewer spans than this a map of failures over time says nothing.
_MAP_FROM = 6
_MANY = 15


def render(report: Report) -> str:
    """The whole page."""
    body = "\n".join(
        part for part in (_header(report), *_sections(report), _footer(report)) if part
    )
    style = Path(__file__).with_name("style.css").read_text()
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(report.title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _header(report: Report) -> str:
    return (
        '<header><div class="eyebrow">Penstock report</div>'
        f"<h1>{escape(report.title)}</h1>"
        f'<p class="lead">{_lead(report)}</p>'
        f'<p class="when">{_period(report)}</p></header>'
    )


def _lead(report: Report) -> str:
    """The figures that matter most, as sentences."""
    done, dead = sum(q.done for q in report.queues), sum(q.dead for q in report.queues)
    if not done + dead:
        return "No message was finished in this period."
    failures = sum(q.failures for q in report.queues)
    slowest = max(report.queues, key=lambda q: q.end_to_end.p50 or 0)
    found = [
        (
            f"<b>{done:,}</b> deliveries done in <b>{len(report.queues)}</b> "
            f"{'queue' if len(report.queues) == 1 else 'queues'}."
        )
    ]
    if slowest.end_to_end.p50 is not None:
        found.append(
            f"Even in the slowest, {escape(slowest.queue)}, half of them were through within "
            f"<b>{duration(slowest.end_to_end.p50)}</b> and 99 of 100 within "
            f"<b>{duration(slowest.end_to_end.p99)}</b>."
            if len(report.queues) > 1
            else f"Half of them were through within <b>{duration(slowest.end_to_end.p50)}</b>, "
            f"99 of 100 within <b>{duration(slowest.end_to_end.p99)}</b>."
        )
    if failures:
        verb = "attempt" if failures == 1 else "attempts"
        found.append(
            f"<b>{count(failures)}</b> {verb} failed ({share(failures, done + failures)}),"
        )
        found.append(f"and <b>{count(dead)}</b> {'message' if dead == 1 else 'messages'} died.")
    else:
        found.append("No attempt failed.")
    return " ".join(found)


def _period(report: Report) -> str:
    if report.since is None or report.until is None:
        return "nothing was measured yet"
    return (
        f"{report.since:%A, %-d %B %Y, %H:%M:%S} to {_until(report)} UTC, "
        f"a period of {duration(report.span.total_seconds())}"
    )


def _until(report: Report) -> str:
    assert report.since is not None
    assert report.until is not None
    same_day = report.since.date() == report.until.date()
    return f"{report.until:%H:%M:%S}" if same_day else f"{report.until:%-d %B %Y, %H:%M:%S}"


def _sections(report: Report) -> list[str]:
    if not report.queues:
        return []
    return [
        _cards(report),
        _throughput(report),
        _distribution(report),
        _latency(report),
        _wait_and_work(report),
        _failures(report),
        _groups("By tenant", "tenant", report.tenants, report),
        _groups("By key", "key", report.keys, report),
    ]


def _cards(report: Report) -> str:
    shown = (_card(report, number, queue) for number, queue in enumerate(report.queues))
    return f'<div class="cards">{"".join(shown)}</div>'


def _card(report: Report, number: int, figures: QueueFigures) -> str:
    rate = figures.done / report.span.total_seconds() if report.span else 0
    facts = (
        ("p50", duration(figures.end_to_end.p50), ""),
        ("p95", duration(figures.end_to_end.p95), ""),
        ("p99", duration(figures.end_to_end.p99), ""),
        ("retried", count(figures.retried), ""),
        ("failed", count(figures.failures), ""),
        ("dead", count(figures.dead), "ill" if figures.dead else ""),
    )
    listed = "".join(f'<div><dt>{n}</dt><dd class="{kind}">{v}</dd></div>' for n, v, kind in facts)
    return (
        f'<div class="card"><h3><span class="chip {colour(number)}"></span>'
        f"{escape(figures.queue)}</h3>"
        f'<div class="big">{figures.done:,}</div>'
        f'<div class="of">done, {count(round(rate, 1))} a second on average</div>'
        f"{plots.spark(report, figures.queue, number)}"
        f'<div style="margin-top:8px">{plots.outcomes(figures)}</div>'
        f"<dl>{listed}</dl></div>"
    )


def _throughput(report: Report) -> str:
    said = f"Messages done a second, in spans of {duration(report.bucket.total_seconds())}."
    if any(each.failures for each in report.buckets):
        said += " Failed attempts hang below the line, on a scale of their own."
    return _section("Throughput", said, _legend(report) + plots.throughput(report))


def _distribution(report: Report) -> str:
    if not report.histogram:
        return ""
    said = (
        "From publishing (or the time it was due) to the ack. Each step of the axis is ten times "
        "the one before."
    )
    return _section("How long messages took", said, plots.distribution(report))


def _latency(report: Report) -> str:
    shown = "".join(
        f'<div><h3><span class="chip {colour(n)}"></span>{escape(q.queue)}</h3>'
        f"{plots.latency(report, q.queue, n)}</div>"
        for n, q in enumerate(report.queues)
        if q.end_to_end.p50 is not None
    )
    said = "The line is the median, the band reaches up to p95, the dashes show p99."
    return (
        _section("End to end over time", said, f'<div class="pair">{shown}</div>') if shown else ""
    )


def _wait_and_work(report: Report) -> str:
    legend = (
        '<ul class="legend"><li><span class="chip wait"></span>waiting for a consumer</li>'
        '<li><span class="chip work"></span>in its hands</li></ul>'
    )
    said = "A queue that waits needs more consumers; one that works long needs faster handlers."
    return _section("Where the time goes", said, legend + plots.wait_and_work(report))


def _failures(report: Report) -> str:
    if not report.reasons:
        return _section("Failures", "No attempt failed in this period.", "")
    dead = sum(q.dead for q in report.queues)
    total = sum(q.failures for q in report.queues)
    said = f"{count(total)} failed attempts, {count(dead)} dead letters; frequent reasons first."
    moments = {each.at for each in report.buckets}
    shown = plots.heat(report) if len(moments) >= _MAP_FROM else ""
    return _section("Failures", said, f"{shown}{_reason_table(report.reasons, report)}")


def _groups(title: str, word: str, found: Sequence[Group], report: Report) -> str:
    if not any(each.name for each in found):
        return ""
    said = (
        "Those with dead letters first, then those with the most failed attempts, then the slowest."
    )
    return _section(title, said, _group_table(word, found, report))


def _legend(report: Report) -> str:
    items = "".join(
        f'<li><span class="chip {colour(n)}"></span>{escape(q.queue)}</li>'
        for n, q in enumerate(report.queues)
    )
    return f'<ul class="legend">{items}</ul>'


def _section(title: str, said: str, content: str) -> str:
    return f"<section><h2>{title}</h2><p>{said}</p>{content}</section>"


def _footer(report: Report) -> str:
    lines = [
        f"Made by <code>penstock pipeline analyse</code> {report.made_at:%-d %B %Y, %H:%M:%S} UTC."
    ]
    if report.tables:
        listed = ", ".join(f"<code>{escape(path)}</code>" for path in report.tables.values())
        lines.append(f"The figures are tables as well: {listed}")
    return f"<footer>{''.join(f'<p>{line}</p>' for line in lines)}</footer>"


def _reason_table(found: Sequence[Reason], report: Report) -> str:
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


def _group_table(word: str, found: Sequence[Group], report: Report) -> str:
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
