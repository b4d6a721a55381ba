"""Whether a history keeps the promises: counted as Jepsen's total queue counts.

*lost*: acknowledged to its publisher and never delivered.  *unexpected*: delivered and never
attempted.  *recovered*: its publisher never learnt what became of it, and it was delivered.
*stored twice*: two messages with one number.  *duplicated*: delivered more than once, which is
explained when each delivery but the last belongs to a claim that ended without an ack, or that the
server forgot in a crash: a claim does not wait for the disk.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.faults.ledger import Entry, Step

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
