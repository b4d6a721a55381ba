"""What Prometheus learns from the database itself (extra `metrics`): `penstock metrics` serves it.

One process is enough for a database, whatever programs publish and consume, in any language.  Each
look costs the same however long the backlog is: counts end at 10,001.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.client import calls
from penstock.client.calls import looks
from penstock.errors import PenstockError
from penstock.extras import needs
from penstock.observe.instruments import DATABASE_COUNTERS, DATABASE_GAUGES, OLDEST, QUEUE_GAUGES

with needs("metrics"):
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

    from penstock.client.facts import QueueNow

Value = tuple[tuple[str, ...], float]


class DatabaseCollector:
    """Asks the database at each scrape; `ask` runs a call, and reconnects by itself."""

    def __init__(self, ask: Callable[[calls.Call[Any]], Any]) -> None:
        self._ask = ask
        self._turn = threading.Lock()
        self._since: str | None = None
        self._sums: Counter[tuple[str, str]] = Counter()

    def collect(self) -> Iterator[Metric]:
        """Everything, or only that the database does not answer."""
        with self._turn:
            try:
                found = {**self._queues(), **self._storage(), **self._counted()}
            except PenstockError:
                found = {"up": [((), 0.0)]}
        yield from (_family(name, values) for name, values in found.items())

    def describe(self) -> list[Metric]:
        """Nothing is asked when it is registered."""
        return []

    def _queues(self) -> dict[str, list[Value]]:
        queues: list[QueueNow] = self._ask(looks.queue_overview())
        of: dict[str, Callable[[QueueNow], float]] = {
            "queue_pending": lambda each: each.waiting + each.blocked + each.scheduled,
            "queue_waiting": lambda each: each.waiting,
            "queue_blocked": lambda each: each.blocked,
            "queue_delayed": lambda each: each.delayed,
            "queue_retrying": lambda each: each.retrying,
            "queue_processing": lambda each: each.claimed,
            "queue_scheduled": lambda each: each.scheduled,
            "queue_dead": lambda each: each.dead,
            "queue_paused": lambda each: each.paused_at is not None,
        }
        found: dict[str, list[Value]] = {
            name: [((each.name,), float(read(each))) for each in queues]
            for name, read in of.items()
        }
        found[OLDEST[0]] = [
            ((each.name,), each.oldest_waiting_at.timestamp())
            for each in queues
            if each.oldest_waiting_at is not None
        ]
        return found

    def _storage(self) -> dict[str, list[Value]]:
        segments = self._ask(looks.segment_overview())
        kinds = {(each.kind, each.state) for each in segments}
        held = {
            kind: [each for each in segments if (each.kind, each.state) == kind] for kind in kinds
        }
        return {
            "up": [((), 1.0)],
            "health": [((each.name,), float(each.ok)) for each in self._ask(calls.health())],
            "segments": [(kind, float(len(some))) for kind, some in held.items()],
            "segment_bytes": [
                (kind, float(sum(each.bytes for each in some))) for kind, some in held.items()
            ],
            "reader_lag": [
                ((each.name,), float(each.lag)) for each in self._ask(looks.reader_overview())
            ],
            "oldest_transaction_seconds": [((), self._ask(looks.oldest_transaction()) or 0.0)],
        }

    def _counted(self) -> dict[str, list[Value]]:
        """Sums since this process began: what happened between two looks is counted once."""
        happened = self._ask(looks.activity(self._since))
        for each in happened:
            self._since = each.snapshot
            if each.kind == "topic":
                self._sums["topic_published", each.name] += each.published or 0
            else:
                self._sums["queue_acked", each.name] += each.acked or 0
                self._sums["queue_failed", each.name] += each.failed or 0
        return {
            metric: [
                ((name,), float(sum_)) for (of, name), sum_ in self._sums.items() if of == metric
            ]
            for metric in DATABASE_COUNTERS
        }


def _family(name: str, values: list[Value]) -> Metric:
    if name in DATABASE_COUNTERS:
        text, labels = DATABASE_COUNTERS[name]
        family: Any = CounterMetricFamily(f"penstock_{name}", text, labels=labels)
    elif name in DATABASE_GAUGES:
        text, labels = DATABASE_GAUGES[name]
        family = GaugeMetricFamily(f"penstock_{name}", text, labels=labels)
    else:
        text = dict([OLDEST]).get(name) or QUEUE_GAUGES[name.removeprefix("queue_")]
        family = GaugeMetricFamily(f"penstock_{name}", text, labels=("queue",))
    for labels_, value in values:
        family.add_metric(labels_, value)
    metric: Metric = family
    return metric
