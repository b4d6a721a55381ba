"""The pages that are a table or two: workers, readers, schedules, storage, and the audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.calls import audit, looks
from penstock.dashboard.page_context import dashboard_of, parameter, render

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.dashboard.page_context import Dashboard
    from penstock.dashboard.samples import Sample

AUDIT_ROWS = 100


async def workers(request: Request) -> Response:
    """Which consumers there are, and what they have claimed."""
    dashboard = dashboard_of(request)
    inner = worker_regions(dashboard, await dashboard.poller.current())
    return render(request, "live.html", title="Workers", live="workers", inner=inner)


def worker_regions(dashboard: Dashboard, sample: Sample) -> str:
    consumers = dashboard.poller.samples.consumers()
    idle = sorted(set(sample.queues) - {each.queue for each in consumers})
    return dashboard.html("_workers.html", now=sample.at, consumers=consumers, idle=idle)


async def readers(request: Request) -> Response:
    """Named readers of the log, Spark streams among them, and how far they are."""
    dashboard = dashboard_of(request)
    sample = await dashboard.poller.current()
    return render(
        request,
        "readers.html",
        live="readers",
        inner=reader_regions(dashboard, sample),
        now=sample.at,
        streams=await dashboard.database.look(looks.list_streams()),
    )


def reader_regions(dashboard: Dashboard, sample: Sample) -> str:
    return dashboard.html("_readers.html", now=sample.at, readers=sample.readers)


async def schedules(request: Request) -> Response:
    """Schedules, known by their past fires: workers have them, not the database."""
    dashboard = dashboard_of(request)
    return render(
        request,
        "schedules.html",
        now=await dashboard.database.look(looks.clock()),
        schedules=await dashboard.database.look(looks.list_schedules()),
    )


async def storage(request: Request) -> Response:
    """The segments of log and history, what holds them, and which transactions pin the horizon."""
    dashboard = dashboard_of(request)
    segments = await dashboard.database.look(looks.segment_overview())
    return render(
        request,
        "storage.html",
        now=await dashboard.database.look(looks.clock()),
        segments=segments,
        largest=max((each.bytes for each in segments), default=1) or 1,
        total=sum(each.bytes for each in segments),
        holders=await dashboard.database.look(looks.horizon_holders()),
    )


async def audit_log(request: Request) -> Response:
    """What operators did, newest first."""
    before = parameter(request, "before")
    behind = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else None  # noqa: PLR2004
    entries = await dashboard_of(request).database.look(audit.list_actions(behind, AUDIT_ROWS))
    more = entries[-1].id if len(entries) == AUDIT_ROWS else None
    return render(request, "audit.html", entries=entries, more=more)
