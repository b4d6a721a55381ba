"""Whether a history keeps the promises: counted as Jepsen's total queue counts.

*lost*: acknowledged to its publisher and never delivered.  *unexpected*: delivered and never
attempted.  *recovered*: its publisher never learnt what became of it, and it was delivered.
*stored twice*: two messages with one number.  *duplicated*: delivered more than once, which is
explained when each delivery but the last belongs to a claim that ended without an ack, or that the
server forgot in a crash: a claim does not wait for the disk.

*claimed twice*: one attempt at a message delivered to two consumers, without a crash.
*inverted*: of a key, delivered before one that was stored earlier.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from prove.ledger import NOWHERE, Entry, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Claims = Mapping[int, Counter[str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    attempted: int
    acknowledged: int
    delivered: int
    recovered: int
    duplicated: int
    lost: tuple[int, ...]
    unexpected: tuple[int, ...]
    stored_twice: tuple[int, ...]
    unexplained: tuple[int, ...]
    """Ids of messages delivered more often than they were claimed, or after their ack."""
    claimed_twice: tuple[int, ...]
    inverted: tuple[int, ...]

    @property
    def broken(self) -> dict[str, int]:
        """Broken promises of delivery at least once; what a dedupe key adds is asked by name."""
        found = {
            "lost": len(self.lost),
            "unexpected": len(self.unexpected),
            "unexplained": len(self.unexplained),
            "claimed twice": len(self.claimed_twice),
            "out of order": len(self.inverted),
        }
        return {name: count for name, count in found.items() if count}

    @property
    def kept(self) -> bool:
        return not self.broken

    @property
    def counts(self) -> dict[str, int]:
        return {
            "attempted": self.attempted,
            "acked": self.acknowledged,
            "delivered": self.delivered,
            "lost": len(self.lost),
            "unexpected": len(self.unexpected),
            "duplicated": self.duplicated,
            "recovered": self.recovered,
            "stored twice": len(self.stored_twice),
            "unexplained": len(self.unexplained),
            "claimed twice": len(self.claimed_twice),
            "out of order": len(self.inverted),
        }

    def __str__(self) -> str:
        return ", ".join(f"{name} {count}" for name, count in self.counts.items())


def judge(
    entries: Sequence[Entry],
    claims: Claims,
    *,
    crashes: int = 0,
    ordered: bool = False,
    failed_over: bool = False,
) -> Verdict:
    """Weigh what actors noted against the engine's receipts: message id → outcome → how often.

    `ordered`: the queue promises the order of each key.  `failed_over`: what nobody was promised
    may have been delivered by a server that is no more, together with its receipts.
    """
    numbers: dict[Step, set[int]] = defaultdict(set)
    deliveries: Counter[int] = Counter()
    ids: dict[int, set[int]] = defaultdict(set)
    for entry in entries:
        numbers[entry.step].add(entry.number)
        if entry.step is Step.DELIVERED:
            deliveries[entry.message_id] += 1
            ids[entry.number].add(entry.message_id)
    attempted, acked = numbers[Step.ATTEMPT], numbers[Step.ACKED]
    delivered = numbers[Step.DELIVERED]
    excused = {
        message_id
        for number, found in ids.items()
        for message_id in found
        if failed_over and number not in acked
    }
    return Verdict(
        attempted=len(attempted),
        acknowledged=len(acked),
        delivered=len(delivered),
        recovered=len((numbers[Step.UNKNOWN] - acked) & delivered),
        duplicated=sum(times > 1 for times in deliveries.values()),
        lost=tuple(sorted(acked - delivered)),
        unexpected=tuple(sorted(delivered - attempted)),
        stored_twice=tuple(sorted(number for number, found in ids.items() if len(found) > 1)),
        unexplained=tuple(sorted(set(_unexplained(deliveries, claims, crashes)) - excused)),
        # A crash may forget a claim, and then its attempt is counted again.
        claimed_twice=() if crashes else tuple(sorted(_claimed_twice(entries))),
        inverted=tuple(sorted(_inverted(entries))) if ordered else (),
    )


def within(entries: Iterable[Entry], queue: str, *, keyed: bool = False) -> list[Entry]:
    """What a history says of one queue; `keyed`: of one that gets messages with a key only."""
    every = list(entries)
    known = {
        entry.number
        for entry in every
        if entry.step is Step.ATTEMPT and (entry.place != NOWHERE or not keyed)
    }
    return [
        entry
        for entry in every
        if (entry.place == queue if entry.step is Step.DELIVERED else entry.number in known)
    ]


def _unexplained(deliveries: Counter[int], claims: Claims, crashes: int) -> Iterator[int]:
    for message_id, times in deliveries.items():
        outcomes = claims.get(message_id, Counter())
        # Each claim delivers once at most, and the claim that is acked is the last one.
        if outcomes["acked"] != 1 or times - crashes > outcomes.total():
            yield message_id


def _claimed_twice(entries: Iterable[Entry]) -> set[int]:
    seen: set[tuple[int, int]] = set()
    twice: set[int] = set()
    for entry in entries:
        if entry.step is Step.DELIVERED:
            attempt = (entry.message_id, entry.attempt)
            if attempt in seen:
                twice.add(entry.message_id)
            seen.add(attempt)
    return twice


def _inverted(entries: Sequence[Entry]) -> set[int]:
    """Numbers that came before one of their key that was stored before they were attempted.

    What was not acknowledged may be stored whenever the server gets round to it, so it has no
    place in the order.
    """
    acked = {entry.number for entry in entries if entry.step is Step.ACKED}
    order: dict[str, list[int]] = defaultdict(list)
    first: dict[int, int] = {}
    for place, entry in enumerate(entries):
        if entry.step is Step.ATTEMPT and entry.place != NOWHERE and entry.number in acked:
            order[entry.place].append(entry.number)
        elif entry.step is Step.DELIVERED:
            first.setdefault(entry.number, place)
    return {
        later
        for numbers in order.values()
        for earlier, later in pairwise(number for number in numbers if number in first)
        if first[later] < first[earlier]
    }
