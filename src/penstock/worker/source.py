"""Where a worker's work comes from: what a runner asks of a queue, or of a task store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from penstock.worker.handler import Handler
    from penstock.worker.invoke import Invoker, Middleware
    from penstock.worker.outcomes import Outcome
    from penstock.worker.runner import Slots


class Stage(Enum):
    """How far a claimed message has come in this worker."""

    WAITING = "waiting"
    RUNNING = "running"
    SETTLING = "settling"
    """Its handler has ended, and the database is being told."""


class Claim:
    """One claimed message or task that this worker holds."""

    __slots__ = (
        "ends_at",
        "finished",
        "id",
        "keyed",
        "lost",
        "record",
        "released",
        "seconds",
        "slots",
        "stage",
        "task",
        "token",
    )

    def __init__(
        self,
        record: Any,
        token: Any,
        ends_at: float,
        slots: Slots,
        keyed: bool = False,  # noqa: FBT001, FBT002 - made for each message, and a keyword costs
    ) -> None:
        self.record = record
        self.id = record.id
        self.keyed = keyed
        """The next message of its key may wait for its end."""
        self.token = token
        """Proves to the database that the claim is ours: a claim token, or a task's lease."""
        self.ends_at = ends_at
        """The claim's end on this process's steady clock; early rather than late."""
        self.slots = slots
        """The handler that the message is for, at work."""
        self.stage = Stage.WAITING
        self.lost = False
        self.finished = False
        """The handler has acked, nacked, released or buried it itself, or does so now."""
        self.released = False
        """It was given back because the worker stops, whatever its handler still does."""
        self.seconds: float | None = None
        """How long its handler took."""
        self.task: asyncio.Task[None] | None = None


Ended: TypeAlias = "tuple[Claim, Outcome]"
# The claims that still held, and whether each message has become a dead letter.
Answer: TypeAlias = Mapping[Claim, bool]


@dataclass(frozen=True, slots=True)
class Found:
    """What a claim brought."""

    claims: list[Claim]
    suspects: list[Claim] = field(default_factory=list)
    """Those whose attempt was deferred: a consumer may have died of one before."""
    busy: bool = False
    """The claim did not get its turn: the queue need not be empty."""


class Source(Protocol):
    """Claims work, and tells the database what became of it."""

    title: str
    """What it is, for errors: "queue 'billing'"."""
    claim_for: float
    """Seconds that a claim lasts."""
    gathers: bool
    """Whether one call can ack many, so that acks are worth gathering."""
    most_calls: int
    """Calls of the ack batcher at the same time."""
    refusals: tuple[type[Exception], ...]
    """Errors by which it refuses an outcome for good, besides those of the engine."""

    # From the wake-up to the claim

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Be woken by the database for as long as the block lasts, where it can."""

    async def ready(self) -> None:
        """Return when the source may be looked at."""

    async def prepare(self) -> None:
        """Before a claim that may find nothing: see that a later message wakes us."""

    async def claim(self, count: int, slots: Sequence[Slots]) -> Found:
        """Claim up to so many messages for the handlers that have free slots."""

    async def rest(self, found: Found, count: int, changed: asyncio.Event) -> None:
        """After a claim of up to `count`: sleep for as long as a claim would find nothing."""

    async def sleep(self, seconds: float, changed: asyncio.Event) -> bool:
        """Sleep; True when something woke us: the database, or `changed`."""

    # From the claim to the ack

    def invoker(self, handler: Handler, layers: Sequence[Middleware]) -> Invoker:
        """What calls the handler."""

    def message(self, claim: Claim) -> Any:
        """What the handler gets; PayloadInvalid if the payload does not fit its type."""

    def span(self, claim: Claim) -> AbstractContextManager[None]:
        """Traces the handling of a message."""

    async def begin_attempt(self, claim: Claim) -> bool:
        """Count a deferred attempt from now on; False: the claim is lost."""

    def batches(self, ended: list[Ended]) -> Iterable[list[Ended]]:
        """Put together what one call can tell the database: of one handler, with one outcome."""

    async def settle(self, batch: list[Ended]) -> Answer:
        """Tell the database what became of such a batch."""

    async def extend(self, claims: list[Claim]) -> set[Claim]:
        """Extend claims and move their `ends_at`; returns those that still held."""

    # What it tells subscribers

    def tell_claimed(self, count: int) -> None: ...
    def tell_ended(self, claim: Claim, outcome: Outcome) -> None: ...
    def tell_settled(self, batch: list[Ended], kept: Answer) -> None: ...
    def tell_extended(self, count: int) -> None: ...
    def tell_lost(self, claim: Claim) -> None: ...
    def tell_failure(self, problem: Exception) -> None: ...
