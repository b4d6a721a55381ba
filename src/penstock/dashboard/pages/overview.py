"""The first page: what needs attention, every queue, and the picture of topics and consumers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.facts import COUNTED_TO
from penstock.dashboard.attention import concerns
from penstock.dashboard.charts import Spark, picture, spark, thinned
from penstock.dashboard.page_context import dashboard_of, render

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.client.facts import QueueNow
    from penstock.dashboard.page_context import Dashboard
    from penstock.dashboard.samples import Latency, Sample, Samples


@dataclass(frozen=True, slots=True)
class Row:
    """A queue with what was seen of it."""

    queue: QueueNow
    came: float
    done: float
    failed: float
    waits: Latency | None
    works: Latency | None
    depth: Spark
    flow: Spark


async def page(request: Request) -> Response:
    sample = await dashboard_of(request).poller.current()
    return render(
        request, "overview.html", live="overview", inner=regions(dashboard_of(request), sample)
    )


def regions(dashboard: Dashboard, sample: Sample) -> str:
    """The parts of the page that change, rendered once for all browsers that show it."""
    samples = dashboard.poller.samples
    rows = [_row(queue, samples) for queue in sample.queues.values()]
    return dashboard.html(
        "_overview.html",
        now=sample.at,
        rows=rows,
        concerns=concerns(sample, samples),
        picture=picture(sample, samples),
        totals={
            "queues": len(rows),
            "waiting": sum(row.queue.waiting for row in rows),
            "blocked": sum(row.queue.blocked for row in rows),
            "claimed": sum(row.queue.claimed for row in rows),
            "dead": sum(row.queue.dead for row in rows),
            "came": sum(samples.topic_rate(topic) for topic in sample.topics),
            "done": sum(row.done for row in rows),
            "is_bounded": any(row.queue.waiting > COUNTED_TO for row in rows),
        },
    )


def _row(queue: QueueNow, samples: Samples) -> Row:
    flows = [flow for _, flow in samples.flows(queue.name)]
    return Row(
        queue,
        samples.rate(queue.name, "came"),
        samples.rate(queue.name, "done"),
        samples.rate(queue.name, "failed"),
        samples.latency(queue.name, "waits"),
        samples.latency(queue.name, "works"),
        spark(thinned([float(flow.waiting) for flow in flows])),
        spark(thinned([flow.done for flow in flows if flow.is_known])),
    )
