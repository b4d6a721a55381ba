"""Does it add up?  The script, the ledger of this process and the engine's own books must agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import Connection

from penstock.cli.demo.ledger import Ledger, Page, percentile
from penstock.cli.demo.players import expected_failures
from penstock.cli.demo.stage import Stage
from penstock.cli.demo.story import BILLING, DELAY, PARTS, SHIPPING, Fate, Part, Script
from penstock.client import calls
from penstock.models import DeadLetter, QueueStatistics
from penstock.postgres.call import run

MILLISECONDS = 1000
# The delay is kept by the database's clock and measured with ours.
CLOCKS_DIFFER = timedelta(milliseconds=10)


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
class Books:
    """Everything that is known at the end of a demo."""

    script: Script
    pages: dict[str, Page]
    statistics: dict[str, QueueStatistics]
    dead: dict[str, list[DeadLetter]]

    def number(self, fate: Fate) -> int:
        return self.script.special(fate).number


def collect(connection: Connection[Any], script: Script, stage: Stage, ledger: Ledger) -> Books:
    queues = {part.name: stage.queue(part) for part in PARTS}
    return Books(
        script,
        {name: ledger.page(name) for name in queues},
        {name: run(connection, calls.queue_statistics(queue)) for name, queue in queues.items()},
        {name: run(connection, calls.list_dead_letters(queue)) for name, queue in queues.items()},
    )


def lines(books: Books) -> list[Line]:
    return [_line(books, part) for part in PARTS]


def _line(books: Books, part: Part) -> Line:
    page = books.pages[part.name]
    latencies = page.latencies(without=frozenset({books.number(Fate.DELAYED)}))
    p50, p95, p99 = (_milliseconds(percentile(latencies, share)) for share in (0.5, 0.95, 0.99))
    return Line(
        queue=part.name,
        about=part.about,
        published=len(page.published),
        done=len(page.done),
        retried=page.retried(),
        dead=len(books.dead[part.name]),
        per_second=round(page.rate(), 1),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * MILLISECONDS, 1)


def findings(books: Books) -> list[Finding]:
    return [
        *(_accounts(books, part) for part in PARTS),
        *(_failures(books, part) for part in PARTS if part.stumbles_every),
        order_kept(books),
        _delayed(books),
        _overtook(books),
        _poisoned(books),
    ]


def _accounts(books: Books, part: Part) -> Finding:
    """Published = done + dead, by our ledger and by the engine, and nothing was done twice."""
    page, engine = books.pages[part.name], books.statistics[part.name]
    planned = len(books.script.orders)
    published, done, dead = len(page.published), len(page.done), len(books.dead[part.name])
    left = engine.pending_count + engine.processing_count
    agree = (done, dead) == (engine.completed_count, engine.dead_count)
    twice = page.done_twice()
    return Finding(
        ok=planned == published == done + dead and agree and left == 0 and not twice,
        text=f"{part.name}: {published} of {planned} published = {done} done + {dead} dead; "
        f"the engine counts {engine.completed_count} + {engine.dead_count} and {left} left; "
        f"{len(twice)} done twice",
    )


def _failures(books: Books, part: Part) -> Finding:
    planned = expected_failures(part, list(books.script.orders.values()))
    page = books.pages[part.name]
    stumbled = {outcome.order for outcome in page.failed}
    mended = {outcome.order for outcome in page.done if outcome.attempt > 1}
    dead = {_order(letter) for letter in books.dead[part.name]}
    return Finding(
        ok=len(page.failed) == planned and stumbled == mended | dead,
        text=f"{part.name}: {len(page.failed)} handlers failed ({planned} were meant to); "
        f"{len(mended)} orders succeeded at a later attempt",
    )


def order_kept(books: Books) -> Finding:
    """fifo: once a customer's order was delivered, no earlier one is, not even as a retry.

    Deliveries are noted before the ack that lets the next one go; acks are noted after it, so two
    threads may note them the wrong way round.
    """
    by_customer: dict[str, list[int]] = defaultdict(list)
    for delivery in books.pages[SHIPPING.name].deliveries:
        by_customer[books.script.orders[delivery.order].customer].append(delivery.order)
    broken = sum(1 for orders in by_customer.values() if orders != sorted(orders))
    return Finding(
        ok=broken == 0,
        text=f"shipping: {len(by_customer) - broken} of {len(by_customer)} customers "
        "got their orders in the order they were placed, retries included",
    )


def _delayed(books: Books) -> Finding:
    """In no queue may it arrive before its time."""
    number = books.number(Fate.DELAYED)
    waits = [page.wait(number) for page in books.pages.values()]
    arrived = [wait for wait in waits if wait is not None]
    shown = ", ".join(f"{wait:.2f} s" for wait in arrived)
    return Finding(
        ok=len(arrived) == len(PARTS) and min(arrived) >= (DELAY - CLOCKS_DIFFER).total_seconds(),
        text=f"delayed order {number}: asked for {DELAY.total_seconds():.0f} s, "
        f"delivered after {shown or 'never'}",
    )


def _overtook(books: Books) -> Finding:
    number, delayed = books.number(Fate.PRIORITY), books.number(Fate.DELAYED)
    page = books.pages[BILLING.name]
    overtaken = page.overtaken_by(number, without=frozenset({delayed}))
    wait = page.wait(number)
    shown = "never" if wait is None else f"after {wait * MILLISECONDS:.0f} ms"
    return Finding(
        ok=overtaken > 0,
        text=f"priority order {number}: overtook {overtaken} orders that waited in billing, "
        f"delivered {shown}",
    )


def _poisoned(books: Books) -> Finding:
    """Dead in billing, with its error and every attempt; the other queues never noticed."""
    number, attempts = books.number(Fate.POISONED), BILLING.settings["max_delivery_attempts"]
    letters = [letter for letter in books.dead[BILLING.name] if _order(letter) == number]
    elsewhere = sum(
        any(outcome.order == number for outcome in books.pages[part.name].done)
        for part in PARTS
        if part is not BILLING
    )
    return Finding(
        ok=[letter.attempts for letter in letters] == [attempts] and elsewhere == len(PARTS) - 1,
        text=f"poisoned order {number}: {_fate(letters)}; done in {elsewhere} other queues",
    )


def _fate(letters: list[DeadLetter]) -> str:
    if not letters:
        return "not among billing's dead letters"
    letter = letters[0]
    return f"dead in billing after {letter.attempts} attempts ({letter.error})"


def _order(letter: DeadLetter) -> Any:
    return letter.payload["order"] if isinstance(letter.payload, dict) else None


def problems(found: Iterator[Finding] | list[Finding]) -> int:
    return sum(not finding.ok for finding in found)
