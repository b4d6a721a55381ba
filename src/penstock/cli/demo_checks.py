"""The demo without I/O: the orders it publishes, what happened to them, and whether it adds up.

All orders are fixed before the demo starts, so that the end can be checked against them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any

from penstock.models import DeadLetter, QueueStatistics

MILLISECONDS = 1000
CUSTOMERS = 60
DELAY = timedelta(seconds=4)
PRIORITY = 9
# The delay is kept by the database's clock and measured with ours.
CLOCKS_DIFFER = timedelta(milliseconds=10)


class Kind(Enum):
    """What is special about an order."""

    PLAIN = "plain"
    DELAYED = "delayed"
    PRIORITY = "priority"
    POISONED = "poisoned"


@dataclass(frozen=True, slots=True)
class Order:
    number: int
    kind: Kind = Kind.PLAIN

    @property
    def customer(self) -> str:
        if self.kind is Kind.PLAIN:
            return f"customer-{self.number % CUSTOMERS}"
        return f"customer-{self.kind.value}"

    @property
    def payload(self) -> dict[str, Any]:
        amount = "a lot" if self.kind is Kind.POISONED else 5 + self.number % 90
        return {"order": self.number, "customer": self.customer, "amount": amount}


class HandlerFailed(Exception):
    """What a handler of the demo raises; an application's own errors would stand here."""


@dataclass(frozen=True, slots=True)
class DemoQueue:
    """One queue of the demo: its settings, its consumers, and what fails in its handler."""

    name: str
    about: str
    settings: dict[str, Any] = field(hash=False)
    consumers: int = 2
    batch: int = 10
    work: timedelta = timedelta(milliseconds=1)
    # Of every so many orders, the first attempt fails, as if a service behind it were busy.
    fails_every: int | None = None
    retry_delay: timedelta | None = None
    needs_a_number: bool = False

    def fails_first(self, order: int) -> bool:
        return self.fails_every is not None and order % self.fails_every == 0

    def handle(self, payload: dict[str, Any], attempt: int) -> None:
        """Handle an order: a moment of pretended work, and failures as applications have them."""
        time.sleep(self.work.total_seconds())
        if self.needs_a_number and not isinstance(payload["amount"], int):
            raise HandlerFailed(f"amount is {payload['amount']!r}, not a number")
        if attempt == 1 and self.fails_first(payload["order"]):
            raise HandlerFailed("the service behind it is busy")

    def expected_failures(self, orders: Iterable[Order]) -> int:
        """How many handlers will fail in this queue, known from the orders alone."""
        attempts: int = self.settings["max_delivery_attempts"]
        return sum(
            attempts if self.will_be_dead(order) else int(self.fails_first(order.number))
            for order in orders
        )

    def will_be_dead(self, order: Order) -> bool:
        return self.needs_a_number and order.kind is Kind.POISONED


BILLING = DemoQueue(
    name="billing",
    about="standard, 3 attempts, retries after 1 s, 2 s",
    settings={
        "max_delivery_attempts": 3,
        "retry_base": timedelta(seconds=1),
        "retry_cap": timedelta(seconds=2),
    },
    fails_every=37,
    needs_a_number=True,
)
SHIPPING = DemoQueue(
    name="shipping",
    about="fifo: each customer's orders in turn",
    settings={"max_delivery_attempts": 5, "ordering": "fifo"},
    fails_every=53,
    retry_delay=timedelta(seconds=1),
)
ANALYTICS = DemoQueue(
    name="analytics",
    about="standard, never dead, batches of 100",
    settings={"max_delivery_attempts": 0},
    consumers=1,
    batch=100,
    work=timedelta(microseconds=50),
)
QUEUES = (BILLING, SHIPPING, ANALYTICS)


@dataclass(frozen=True, slots=True)
class Batch:
    """Orders that are published together, `at` so long after the start."""

    at: timedelta
    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """All orders of the demo."""

    batches: tuple[Batch, ...]
    orders: dict[int, Order]

    @classmethod
    def made(
        cls,
        *,
        length: timedelta = timedelta(seconds=9),
        every: timedelta = timedelta(milliseconds=50),
        batch: int = 12,
        rush: int = 1500,
    ) -> Plan:
        """A steady stream with a rush in its middle, and the priority order right behind it."""
        batches = tuple(_batches(length // every, every, batch, rush))
        return cls(batches, {order.number: order for each in batches for order in each.orders})

    def number(self, kind: Kind) -> int:
        """The number of the one order of this kind."""
        return next(order.number for order in self.orders.values() if order.kind is kind)


def _batches(steps: int, every: timedelta, batch: int, rush: int) -> Iterator[Batch]:
    specials = {steps // 10: Kind.DELAYED, steps // 8: Kind.POISONED, steps // 3: Kind.PRIORITY}
    number = 1
    for step in range(steps):
        kind = specials.get(step)
        size = rush if kind is Kind.PRIORITY else batch
        yield Batch(step * every, tuple(Order(n) for n in range(number, number + size)))
        number += size
        if kind is not None:
            yield Batch(step * every, (Order(number, kind),))
            number += 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """An attempt that began, succeeded or failed, on this process's monotonic clock."""

    order: int
    attempt: int
    at: float


class Record:
    """What happens, written down as it happens, by all threads.

    All times are of one clock, so no two clocks are compared.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.published: dict[int, float] = {}
        self._delivered: dict[str, list[Delivery]] = defaultdict(list)
        self._done: dict[str, list[Delivery]] = defaultdict(list)
        self._failed: dict[str, list[Delivery]] = defaultdict(list)

    def publishing(self, orders: Iterable[int]) -> None:
        """Called before the statement is sent: a latency may be overstated, never understated."""
        now = time.monotonic()
        with self._lock:
            self.published.update(dict.fromkeys(orders, now))

    def delivered(self, queue: str, attempts: Iterable[tuple[int, int]]) -> None:
        self._add(self._delivered, queue, attempts)

    def done(self, queue: str, attempts: Iterable[tuple[int, int]]) -> None:
        self._add(self._done, queue, attempts)

    def failed(self, queue: str, attempts: Iterable[tuple[int, int]]) -> None:
        self._add(self._failed, queue, attempts)

    def _add(
        self, lists: dict[str, list[Delivery]], queue: str, attempts: Iterable[tuple[int, int]]
    ) -> None:
        now = time.monotonic()
        with self._lock:
            lists[queue] += (Delivery(order, attempt, now) for order, attempt in attempts)

    def done_count(self, queue: str) -> int:
        with self._lock:
            return len(self._done[queue])

    def failed_count(self, queue: str) -> int:
        with self._lock:
            return len(self._failed[queue])

    def of(self, queue: str) -> QueueRecord:
        """A copy of what happened in one queue so far."""
        with self._lock:
            return QueueRecord(
                dict(self.published),
                tuple(self._delivered[queue]),
                tuple(self._done[queue]),
                tuple(self._failed[queue]),
            )


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """What happened in one queue, and the figures that the summary takes from it."""

    published: dict[int, float]
    deliveries: tuple[Delivery, ...]
    done: tuple[Delivery, ...]
    failed: tuple[Delivery, ...]

    def first_deliveries(self) -> dict[int, Delivery]:
        """Each order's first delivery, in the order in which they came."""
        first: dict[int, Delivery] = {}
        for delivery in self.deliveries:
            first.setdefault(delivery.order, delivery)
        return first

    def retried(self) -> int:
        """Orders that were delivered again after a failure."""
        return len({delivery.order for delivery in self.deliveries if delivery.attempt > 1})

    def done_twice(self) -> list[int]:
        counts = Counter(each.order for each in self.done)
        return [order for order, count in counts.items() if count > 1]

    def latencies(self, *, without: frozenset[int] = frozenset()) -> list[float]:
        """Seconds from publishing to the first delivery."""
        return [
            delivery.at - self.published[order]
            for order, delivery in self.first_deliveries().items()
            if order not in without
        ]

    def wait(self, order: int) -> float | None:
        delivery = self.first_deliveries().get(order)
        return None if delivery is None else delivery.at - self.published[order]

    def overtaken_by(self, order: int, *, without: frozenset[int] = frozenset()) -> int:
        """How many orders were published before this one and delivered after it."""
        first = list(self.first_deliveries())
        if order not in first:
            return 0
        behind = first[first.index(order) + 1 :]
        return sum(1 for other in behind if other < order and other not in without)

    def rate(self) -> float:
        """Messages done per second, from the first delivery to the last one done."""
        if not self.done:
            return 0.0
        elapsed = self.done[-1].at - self.deliveries[0].at
        return len(self.done) / elapsed if elapsed > 0 else 0.0


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    if not values:
        return None
    ordered = sorted(values)
    rank = max(1, -(-len(ordered) * round(share * 1000) // 1000))
    return ordered[rank - 1]


@dataclass(frozen=True, slots=True)
class Line:
    """One queue's row of the summary."""

    queue: str
    about: str
    published: int
    done: int
    retried: int
    dead: int
    per_second: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One promise, whether it was kept, and what was seen."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class Result:
    """What is known at the end: the plan, this process's record, and the engine's own counts."""

    plan: Plan
    records: dict[str, QueueRecord]
    statistics: dict[str, QueueStatistics]
    dead: dict[str, list[DeadLetter]]

    def lines(self) -> list[Line]:
        return [self._line(queue) for queue in QUEUES]

    def _line(self, queue: DemoQueue) -> Line:
        record = self.records[queue.name]
        latencies = record.latencies(without=frozenset({self.plan.number(Kind.DELAYED)}))
        p50, p95, p99 = (_milliseconds(percentile(latencies, share)) for share in (0.5, 0.95, 0.99))
        return Line(
            queue=queue.name,
            about=queue.about,
            published=len(record.published),
            done=len(record.done),
            retried=record.retried(),
            dead=len(self.dead[queue.name]),
            per_second=round(record.rate(), 1),
            p50_ms=p50,
            p95_ms=p95,
            p99_ms=p99,
        )

    def findings(self) -> list[Finding]:
        return [
            *(self._accounts(queue) for queue in QUEUES),
            *(self._failures(queue) for queue in QUEUES if queue.fails_every),
            self.order_kept(),
            self._delayed(),
            self._overtook(),
            self._poisoned(),
        ]

    def _accounts(self, queue: DemoQueue) -> Finding:
        """Published = done + dead, by our record and by the engine, and nothing was done twice."""
        record, engine = self.records[queue.name], self.statistics[queue.name]
        planned = len(self.plan.orders)
        published, done, dead = len(record.published), len(record.done), len(self.dead[queue.name])
        left = engine.pending_count + engine.processing_count
        agree = (done, dead) == (engine.completed_count, engine.dead_count)
        twice = record.done_twice()
        return Finding(
            ok=planned == published == done + dead and agree and left == 0 and not twice,
            text=f"{queue.name}: {published} of {planned} published = {done} done + {dead} dead; "
            f"the engine counts {engine.completed_count} + {engine.dead_count} and {left} left; "
            f"{len(twice)} done twice",
        )

    def _failures(self, queue: DemoQueue) -> Finding:
        planned = queue.expected_failures(self.plan.orders.values())
        record = self.records[queue.name]
        failed = {each.order for each in record.failed}
        mended = {each.order for each in record.done if each.attempt > 1}
        dead = {_order(letter) for letter in self.dead[queue.name]}
        return Finding(
            ok=len(record.failed) == planned and failed == mended | dead,
            text=f"{queue.name}: {len(record.failed)} handlers failed ({planned} were meant to); "
            f"{len(mended)} orders succeeded at a later attempt",
        )

    def order_kept(self) -> Finding:
        """fifo: once a customer's order was delivered, no earlier one is, not even as a retry.

        Deliveries are recorded before the ack that lets the next one go; acks are recorded after
        it, so two threads may record them the wrong way round.
        """
        by_customer: dict[str, list[int]] = defaultdict(list)
        for delivery in self.records[SHIPPING.name].deliveries:
            by_customer[self.plan.orders[delivery.order].customer].append(delivery.order)
        broken = sum(1 for orders in by_customer.values() if orders != sorted(orders))
        return Finding(
            ok=broken == 0,
            text=f"shipping: {len(by_customer) - broken} of {len(by_customer)} customers "
            "got their orders in the order they were placed, retries included",
        )

    def _delayed(self) -> Finding:
        """In no queue may it arrive before its time."""
        number = self.plan.number(Kind.DELAYED)
        waits = [record.wait(number) for record in self.records.values()]
        arrived = [wait for wait in waits if wait is not None]
        least = (DELAY - CLOCKS_DIFFER).total_seconds()
        shown = ", ".join(f"{wait:.2f} s" for wait in arrived)
        return Finding(
            ok=len(arrived) == len(QUEUES) and min(arrived) >= least,
            text=f"delayed order {number}: asked for {DELAY.total_seconds():.0f} s, "
            f"delivered after {shown or 'never'}",
        )

    def _overtook(self) -> Finding:
        number, delayed = self.plan.number(Kind.PRIORITY), self.plan.number(Kind.DELAYED)
        record = self.records[BILLING.name]
        overtaken = record.overtaken_by(number, without=frozenset({delayed}))
        wait = record.wait(number)
        shown = "never" if wait is None else f"after {wait * MILLISECONDS:.0f} ms"
        return Finding(
            ok=overtaken > 0,
            text=f"priority order {number}: overtook {overtaken} orders that waited in billing, "
            f"delivered {shown}",
        )

    def _poisoned(self) -> Finding:
        """Dead in billing, with its error and every attempt; done in the other queues."""
        number = self.plan.number(Kind.POISONED)
        attempts = BILLING.settings["max_delivery_attempts"]
        letters = [letter for letter in self.dead[BILLING.name] if _order(letter) == number]
        elsewhere = sum(
            any(each.order == number for each in self.records[queue.name].done)
            for queue in QUEUES
            if queue is not BILLING
        )
        found = "not among billing's dead letters"
        if letters:
            found = f"dead in billing after {letters[0].attempts} attempts ({letters[0].error})"
        return Finding(
            ok=[each.attempts for each in letters] == [attempts] and elsewhere == len(QUEUES) - 1,
            text=f"poisoned order {number}: {found}; done in {elsewhere} other queues",
        )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * MILLISECONDS, 1)


def _order(letter: DeadLetter) -> Any:
    return letter.payload["order"] if isinstance(letter.payload, dict) else None
