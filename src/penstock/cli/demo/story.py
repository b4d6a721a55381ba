"""What the demo tells: an order stream, three queues, three orders with a fate of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any


class Fate(Enum):
    PLAIN = "plain"
    DELAYED = "delayed"
    PRIORITY = "priority"
    POISONED = "poisoned"


@dataclass(frozen=True, slots=True)
class Order:
    number: int
    fate: Fate = Fate.PLAIN

    @property
    def customer(self) -> str:
        if self.fate is Fate.PLAIN:
            return f"customer-{self.number % CUSTOMERS}"
        return f"customer-{self.fate.value}"

    @property
    def payload(self) -> dict[str, Any]:
        amount = "a lot" if self.fate is Fate.POISONED else 5 + self.number % 90
        return {"order": self.number, "customer": self.customer, "amount": amount}


@dataclass(frozen=True, slots=True)
class Part:
    """One queue of the demo and the people who work on it."""

    name: str
    about: str
    settings: dict[str, Any] = field(hash=False)
    consumers: int = 2
    batch: int = 10
    work: timedelta = timedelta(milliseconds=1)
    # Every so many orders the first attempt fails, as a busy neighbour would make it fail.
    stumbles_every: int | None = None
    retry_delay: timedelta | None = None
    needs_a_number: bool = False

    def stumbles(self, order: int) -> bool:
        return self.stumbles_every is not None and order % self.stumbles_every == 0


BILLING = Part(
    name="billing",
    about="standard, 3 attempts, retries after 1 s, 2 s",
    settings={
        "max_delivery_attempts": 3,
        "retry_base": timedelta(seconds=1),
        "retry_cap": timedelta(seconds=2),
    },
    stumbles_every=37,
    needs_a_number=True,
)
SHIPPING = Part(
    name="shipping",
    about="fifo: each customer's orders in turn",
    settings={"max_delivery_attempts": 5, "ordering": "fifo"},
    stumbles_every=53,
    retry_delay=timedelta(seconds=1),
)
ANALYTICS = Part(
    name="analytics",
    about="standard, never dead, batches of 100",
    settings={"max_delivery_attempts": 0},
    consumers=1,
    batch=100,
    work=timedelta(microseconds=50),
)
PARTS = (BILLING, SHIPPING, ANALYTICS)

CUSTOMERS = 60
DELAY = timedelta(seconds=4)
PRIORITY = 9


@dataclass(frozen=True, slots=True)
class Beat:
    """Orders that are published together, `at` so long after the curtain rises."""

    at: timedelta
    orders: tuple[Order, ...]


@dataclass(frozen=True, slots=True)
class Script:
    """The whole stream, fixed before it starts, so that the end can be checked against it."""

    beats: tuple[Beat, ...]
    orders: dict[int, Order]

    def special(self, fate: Fate) -> Order:
        return next(order for order in self.orders.values() if order.fate is fate)


def write(
    *,
    length: timedelta = timedelta(seconds=9),
    every: timedelta = timedelta(milliseconds=50),
    batch: int = 12,
    rush: int = 1500,
) -> Script:
    """A steady stream with a rush in its middle; the priority order comes right behind the rush."""
    steps = length // every
    beats = tuple(_beats(steps, every, batch, rush))
    return Script(beats, {order.number: order for beat in beats for order in beat.orders})


def _beats(steps: int, every: timedelta, batch: int, rush: int) -> Iterator[Beat]:
    specials = {
        steps // 10: Fate.DELAYED,
        steps // 8: Fate.POISONED,
        steps // 3: Fate.PRIORITY,
    }
    number = 1
    for step in range(steps):
        fate = specials.get(step)
        size = rush if fate is Fate.PRIORITY else batch
        yield Beat(step * every, tuple(Order(n) for n in range(number, number + size)))
        number += size
        if fate is not None:
            yield Beat(step * every, (Order(number, fate),))
            number += 1
