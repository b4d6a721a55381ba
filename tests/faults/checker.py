"""Whether a history keeps the promises: counted as Jepsen's total queue counts.

*lost*: acknowledged to its publisher and never delivered.  *unexpected*: delivered and never
attempted.  *recovered*: its publisher never learnt what became of it, and it was delivered.
*stored twice*: two messages with one number.  *duplicated*: delivered more than once, which is
explained when each delivery but the last belongs to a claim that ended without an ack, or that the
server forgot in a crash: a claim does not wait for the disk.

*late*: claimed again more than the allowed time after the end of a claim that nobody finished.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.faults.ledger import Entry, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one message in one claim."""

    message_id: int
    outcome: str
    claimed_at: datetime


@dataclass(frozen=True, slots=True)
class Punctuality:
    """How soon messages came back after their claims had ended."""

    redelivered: int
    worst: timedelta
    late: tuple[int, ...]
    """Ids of messages that came later than allowed."""

    def __str__(self) -> str:
        return (
            f"redelivered {self.redelivered}, at most {self.worst.total_seconds():.3f} s after the "
            f"end of the claim, late {len(self.late)}"
        )


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

    @property
    def kept(self) -> bool:
        """All promises, at least once: what a dedupe key adds is asked for by name."""
        return not (self.lost or self.unexpected or self.unexplained)

    def __str__(self) -> str:
        return (
            f"attempted {self.attempted}, acknowledged {self.acknowledged}, "
            f"delivered {self.delivered}, recovered {self.recovered}, "
            f"duplicated {self.duplicated}, lost {len(self.lost)}, "
            f"unexpected {len(self.unexpected)}, stored twice {len(self.stored_twice)}, "
            f"unexplained {len(self.unexplained)}"
        )


def judge(
    entries: Iterable[Entry], claims: Mapping[int, Counter[str]], *, crashes: int = 0
) -> Verdict:
    """Weigh what actors noted against the engine's receipts: message id → outcome → how often."""
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
    return Verdict(
        attempted=len(attempted),
        acknowledged=len(acked),
        delivered=len(delivered),
        recovered=len((numbers[Step.UNKNOWN] - acked) & delivered),
        duplicated=sum(times > 1 for times in deliveries.values()),
        lost=tuple(sorted(acked - delivered)),
        unexpected=tuple(sorted(delivered - attempted)),
        stored_twice=tuple(sorted(number for number, found in ids.items() if len(found) > 1)),
        unexplained=tuple(
            sorted(
                message_id
                for message_id, times in deliveries.items()
                if not _explained(times - crashes, claims.get(message_id, Counter()))
            )
        ),
    )


def _explained(deliveries: int, outcomes: Counter[str]) -> bool:
    # Each claim delivers once at most, and the claim that is acked is the last one.
    return outcomes["acked"] == 1 and deliveries <= outcomes.total()


def punctuality(
    receipts: Iterable[Receipt], *, claim: timedelta, allowed: timedelta
) -> Punctuality:
    """Weigh when messages were claimed again, after claims of that length that nobody extended."""
    claims: dict[int, list[Receipt]] = defaultdict(list)
    for receipt in sorted(receipts, key=lambda each: each.claimed_at):
        claims[receipt.message_id].append(receipt)
    delays = [
        (again.claimed_at - (ended.claimed_at + claim), ended.message_id)
        for each in claims.values()
        for ended, again in pairwise(each)
        if ended.outcome == "expired"
    ]
    return Punctuality(
        redelivered=len(delays),
        worst=max((delay for delay, _ in delays), default=timedelta(0)),
        late=tuple(sorted({message_id for delay, message_id in delays if delay > allowed})),
    )
