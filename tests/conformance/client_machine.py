"""The steps of the Python door: those of SQL through the client, and what only the client has."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.conformance.client_engine import ClientEngine, as_row
from tests.conformance.machine import QueueMachine, any_drafts, which
from tests.conformance.model import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from penstock.client.calls import Call
    from penstock.models import ClaimedMessage
    from penstock.sync import Client
    from tests.conformance.engine import Draft
    from tests.conformance.model import Queue

LEASE = timedelta(seconds=30)
# What is there comes at once; this is for a machine that is busy.
PATIENCE = timedelta(seconds=30)


class ClientMachine(QueueMachine):
    """A topic with one queue or two, in the hands of a client.

    The writer's transaction is open on a connection of its own, which calls are given.
    """

    engine: ClientEngine

    def __init__(
        self,
        ordering: str,
        client: Client,
        looks: psycopg.Connection[Any],
        second: psycopg.Connection[Any],
    ) -> None:
        engine = ClientEngine(client, looks)
        super().__init__(ordering, engine, engine.inside(second))

    @rule(drafts=st.lists(any_drafts, min_size=1, max_size=8))
    def publish_stream(self, drafts: list[Draft]) -> None:
        step = self._begin()
        assert self.engine.publish_stream(self.topic, drafts) == len(drafts)
        ids = self.engine.besides(self.topic, list(self.log))
        messages = self.engine.stored(ids, step, step)
        assert [each.colour for each in messages] == [draft.colour for draft in drafts]
        self._publish(messages)

    def _ready(self) -> list[Queue]:
        """Queues that have something to claim, so that a consumer does not wait."""
        span = Span(self.now, self.now)
        return [queue for queue in self._free() if queue.least(1, span) > 0]

    @precondition(lambda self: self._ready())
    @rule(
        which=which,
        batch=st.integers(1, 6),
        taken=st.integers(1, 4),
        mode=st.sampled_from(["poll", "hybrid"]),
    )
    def consume(self, which: int, batch: int, taken: int, mode: str) -> None:
        """A consumer claims a batch, hands out some of it, and is closed: the rest goes back."""
        self._begin()
        queue = self._ready()[which % len(self._ready())]
        consumer = self.engine.client.consume(
            queue.name, mode=mode, batch_size=batch, claim_for=LEASE
        )
        with self._overheard() as claims, consumer:
            messages = [consumer.get(PATIENCE)]
            # One more than it holds, and it would claim again.
            messages += [consumer.get(PATIENCE) for _ in claims[0][1:taken]]
        span = self._span()
        assert None not in messages, "it was sure to get something"
        assert len(claims) == 1, f"one claim was enough: {claims}"
        claimed, token = claims[0], messages[0].token
        queue.claim([as_row(each) for each in claimed], token, batch, LEASE, span)
        assert [each.id for each in messages] == [each.id for each in claimed[:taken]]
        for each in claimed[taken:]:
            queue.release(each.id, span)
        self.engine.hold(messages)
        self.claims += [(queue.name, each.id, token) for each in messages]

    @contextmanager
    def _overheard(self) -> Iterator[list[list[ClaimedMessage]]]:
        """What the consumer's claims return: it keeps to itself what it does not hand out."""
        database, claims = self.engine.client.database, []

        def claim(call: Call[Any]) -> Any:
            claims.append(type(database).claim(database, call))
            return claims[-1]

        database.claim = claim  # type: ignore[method-assign]
        try:
            yield claims
        finally:
            del database.claim
