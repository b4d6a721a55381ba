"""How soon messages come back after a claim that nobody finished.

*late*: claimed again more than the allowed time after the end of such a claim.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
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
