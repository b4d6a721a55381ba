"""One queue: its charts, its messages by state, and a search among them; and one message."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import RedirectResponse

from penstock.client import calls as engine
from penstock.client.calls import looks
from penstock.client.facts import Step
from penstock.dashboard.charts import Chart, Series, chart
from penstock.dashboard.page_context import dashboard_of, parameter, render
from penstock.dashboard.pages.actions import deed_done
from penstock.dashboard.text_filters import compact, rate, seconds, span
from penstock.errors import PermissionDenied, UnknownQueue

if TYPE_CHECKING:
    from datetime import datetime

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.client.facts import Found
    from penstock.dashboard.page_context import Dashboard
    from penstock.dashboard.samples import Flow, Sample

STATES = ("waiting", "blocked", "delayed", "retrying", "claimed", "dead")
PAGE_SIZE = 50
MOST_CHARACTERS = 64 * 1024
# The spans that the history can be shown for, and how finely.
SPANS = {
    "1h": (timedelta(hours=1), timedelta(seconds=30)),
    "6h": (timedelta(hours=6), timedelta(minutes=3)),
    "24h": (timedelta(days=1), timedelta(minutes=10)),
    "7d": (timedelta(days=7), timedelta(hours=1)),
}


async def page(request: Request) -> Response:
    dashboard, name = dashboard_of(request), parameter(request, "name")
    sample = await dashboard.poller.current()
    if name not in sample.queues:
        dashboard.poller.hurry()
        sample = await dashboard.poller.current()
    if name not in sample.queues:
        raise UnknownQueue(f"there is no queue {name!r}\nThe overview shows all queues.")
    search, problem = _search(request)
    if search.get("id"):
        return RedirectResponse(_message_link(name, search["id"]), 303)
    state = parameter(request, "state", "waiting")
    state = state if state in STATES else "waiting"
    found: list[Found] = []
    denied = ""
    if not problem:
        wanted = {"after": parameter(request, "after"), **search}
        found, denied = await _messages(dashboard, name, state, wanted)
    more = _next_place(found)
    chosen = parameter(request, "span", "1h")
    chosen = chosen if chosen in SPANS else "1h"
    length, step = SPANS[chosen]
    steps = await dashboard.database.look(looks.queue_history(name, length, step))
    return render(
        request,
        "queue.html",
        live="queue",
        live_name=name,
        inner=regions(dashboard, sample, name),
        name=name,
        queue=sample.queues[name],
        now=sample.at,
        state=state,
        states=STATES,
        search={each: parameter(request, each) for each in ("by", "text")},
        problem=problem,
        denied=denied,
        messages=[each for each in found if each.id is not None],
        more=more,
        after=parameter(request, "after"),
        spans=list(SPANS),
        span=chosen,
        history=_history_charts(_filled(steps, step, sample.at), step),
        did=await deed_done(request),
        settings=await _settings(dashboard, name),
    )


async def _settings(dashboard: Dashboard, name: str) -> str:
    """The settings of the queue as a short text."""
    queues = await dashboard.database.look(engine.list_queues())
    found = next((each for each in queues if each.name == name), None)
    if found is None:
        return ""
    told = [
        f"{found.max_delivery_attempts} attempts"
        if found.max_delivery_attempts
        else "attempts without end",
        f"retries after {span(found.retry_base)}, at most {span(found.retry_cap)}",
    ]
    if found.retention is not None:
        told.append(f"messages lapse after {span(found.retention)}")
    if found.filter is not None:
        told.append(f"filter {compact(found.filter)}")
    if found.exclusive:
        told.append("exclusive")
    return " · ".join(told)


def regions(dashboard: Dashboard, sample: Sample, name: str) -> str:
    """The numbers and the charts of the last minutes."""
    queue, samples = sample.queues.get(name), dashboard.poller.samples
    return dashboard.html(
        "_queue.html",
        now=sample.at,
        name=name,
        queue=queue,
        came=samples.rate(name, "came"),
        done=samples.rate(name, "done"),
        failed=samples.rate(name, "failed"),
        waits=samples.latency(name, "waits"),
        works=samples.latency(name, "works"),
        charts=_live_charts(samples.flows(name)),
    )


def _live_charts(flows: list[tuple[Any, Flow]]) -> list[Chart]:
    times = [at for at, _ in flows]
    return [
        chart(
            "Messages that are due",
            times,
            [
                Series("waiting", "c1", [float(flow.waiting) for _, flow in flows]),
                Series("blocked", "c3", [float(flow.blocked) for _, flow in flows]),
            ],
            label="{:,.0f}".format,
        ),
        chart(
            "Messages per second",
            times,
            [
                Series("published", "c2", [_if_known(flow, flow.came) for _, flow in flows]),
                Series("done", "c1", [_if_known(flow, flow.done) for _, flow in flows]),
                Series(
                    "failed", "c3", [_if_known(flow, flow.failed + flow.dead) for _, flow in flows]
                ),
            ],
            label=rate,
        ),
    ]


def _if_known(flow: Flow, value: float) -> float | None:
    return value if flow.is_known else None


def _history_charts(steps: list[Step], step: timedelta) -> list[Chart]:
    times = [each.at for each in steps]
    return [
        chart(
            f"Messages in {span(step)}",
            times,
            [
                Series("published", "c2", [float(each.published) for each in steps]),
                Series("done", "c1", [float(each.acked) for each in steps]),
                Series("failed", "c3", [float(each.failed + each.expired) for each in steps]),
                Series("dead", "c4", [float(each.dead) for each in steps]),
            ],
            label="{:,.0f}".format,
        ),
        chart(
            "Work per message",
            times,
            [
                Series("median", "c1", [each.work_p50 for each in steps]),
                Series("95 %", "c2", [each.work_p95 for each in steps]),
            ],
            label=seconds,
        ),
    ]


def _filled(steps: list[Step], step: timedelta, now: datetime) -> list[Step]:
    """The same with the steps in which nothing happened: a chart must not bridge them."""
    if not steps:
        return []
    known = {each.at: each for each in steps}
    moments = [steps[0].at + index * step for index in range((now - steps[0].at) // step + 1)]
    return [known.get(at) or Step(at, 0, 0, 0, 0, 0, None, None) for at in moments]


def _search(request: Request) -> tuple[dict[str, Any], str]:
    """What is sought, and what is wrong with it."""
    by, text = parameter(request, "by"), parameter(request, "text")
    if not text.strip():
        return {}, ""
    match by:
        case "id":
            text = text.strip()
            is_id = text.isascii() and text.isdigit() and len(text) < 19  # noqa: PLR2004 - bigint
            return ({"id": text}, "") if is_id else ({}, "An id is a whole number.")
        case "key":
            return {"key": text}, ""
        case "correlation":
            return {"correlation_id": text}, ""
        case "header":
            return _header(text.strip())
        case _:
            return {}, "Choose what to search by."


def _header(text: str) -> tuple[dict[str, Any], str]:
    """`region=eu`, or JSON such as {"retries": 3}."""
    if text.startswith("{"):
        try:
            wanted = json.loads(text)
        except (ValueError, RecursionError):
            return {}, 'That is no JSON. Write region=eu or {"retries": 3}.'
        return {"headers": wanted}, ""
    name, equals, value = text.partition("=")
    if not equals:
        return {}, 'Write a header as region=eu, or as JSON: {"retries": 3}.'
    return {"headers": {name.strip(): value.strip()}}, ""


async def _messages(
    dashboard: Dashboard, name: str, state: str, wanted: dict[str, Any]
) -> tuple[list[Found], str]:
    """A page of messages, with the login's own rights; or why they can't be shown."""
    call = looks.find_messages(name, state, limit=PAGE_SIZE + 1, **wanted)
    try:
        return await dashboard.database.look(call, as_monitor=False), ""
    except PermissionDenied as refused:
        return [], refused.message


def _next_place(found: list[Found]) -> str:
    """Where the next page begins, if there is one."""
    if found and found[-1].id is None:
        return found[-1].place
    if len(found) > PAGE_SIZE:
        del found[PAGE_SIZE:]
        return found[-1].place
    return ""


def _message_link(queue: str, message_id: str) -> str:
    return f"/message?{urlencode({'queue': queue, 'id': message_id})}"


async def message(request: Request) -> Response:
    """One message in one queue: what it holds, and what became of it."""
    dashboard, queue, wanted = (
        dashboard_of(request),
        parameter(request, "queue"),
        parameter(request, "id"),
    )
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 19):  # noqa: PLR2004 - bigint
        return render(
            request, "error.html", code=400, message="A message's id is a whole number.", hint=""
        )
    call = looks.inspect_message(queue, int(wanted), MOST_CHARACTERS)
    found = await dashboard.database.look(call, as_monitor=False)
    if found is None:
        return render(
            request,
            "error.html",
            code=404,
            message=f"Message {wanted} is not in the log any more, or never was in this topic.",
            hint="Messages go when every queue is done with them.",
        )
    return render(
        request,
        "message.html",
        queue=queue,
        id=int(wanted),
        message=found,
        is_cut=len(found.payload) >= MOST_CHARACTERS,
        now=await dashboard.database.look(looks.clock()),
        did=await deed_done(request),
    )
