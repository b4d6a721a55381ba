"""A stream of claims: `mq.consume("billing")`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from penstock.client import consuming
from penstock.client._async.claiming import CLAIM_FOR
from penstock.client._async.consumer import Consumer
from penstock.client._async.core import Core
from penstock.client.consuming import Mode, Options

if TYPE_CHECKING:
    P = TypeVar("P")

POLLING_INTERVAL = timedelta(seconds=1)


class Consuming(Core):
    """Consumers of one queue each; as many as you like share the client's connections."""

    @overload
    def consume(
        self,
        queue: str,
        *,
        mode: Mode | str = Mode.HYBRID,
        batch_size: int = 10,
        prefetch: int = 0,
        polling_interval: timedelta = POLLING_INTERVAL,
        max_polling_interval: timedelta | None = None,
        claim_for: timedelta = CLAIM_FOR,
        give_up_after: int | None = None,
        payload_type: type[P],
    ) -> Consumer[P]: ...

    @overload
    def consume(
        self,
        queue: str,
        *,
        mode: Mode | str = Mode.HYBRID,
        batch_size: int = 10,
        prefetch: int = 0,
        polling_interval: timedelta = POLLING_INTERVAL,
        max_polling_interval: timedelta | None = None,
        claim_for: timedelta = CLAIM_FOR,
        give_up_after: int | None = None,
        payload_type: Any = None,
    ) -> Consumer[Any]: ...

    def consume(
        self,
        queue: str,
        *,
        mode: Mode | str = Mode.HYBRID,
        batch_size: int = 10,
        prefetch: int = 0,
        polling_interval: timedelta = POLLING_INTERVAL,
        max_polling_interval: timedelta | None = None,
        claim_for: timedelta = CLAIM_FOR,
        give_up_after: int | None = None,
        payload_type: Any = None,
    ) -> Consumer[Any]:
        """The queue's messages, as they come: `async for message in mq.consume("billing")`.

        One claim takes up to `batch_size` messages for `claim_for`; with `prefetch`, the next claim
        is made while fewer than that many wait in memory.  What was claimed and not handed out is
        released when the loop is left.  A payload that is no `payload_type` goes to the dead
        letters with the reason.  Which messages a queue gets is decided in the database: see the
        `filter` of `create_queue`.
        """
        wanted = consuming.possible_mode(consuming.mode_named(mode), pooler=self.settings.pooler)
        options = Options(
            mode=wanted,
            batch_size=batch_size,
            prefetch=prefetch,
            polling_interval=polling_interval,
            max_polling_interval=max_polling_interval,
            claim_for=claim_for,
            give_up_after=give_up_after,
        )
        return Consumer(self, queue, options, payload_type)
