"""A claimed message, as its consumer gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.client import calls, reply
from penstock.models import Published
from penstock.observe import Event, Name, emit
from penstock.payloads import PLAIN

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from penstock.models import ClaimedMessage, Json, MessageId
    from penstock.payloads import Codec
    from penstock.postgres._async.database import Database

P = TypeVar("P")
_UNREAD: Any = object()


class Message(Generic[P]):
    """One message, claimed by `token` until `claimed_until`.

    Every method tells whether the claim still held.  If it did not, nothing was changed: the
    message has gone back to its queue, and another consumer may have claimed it.
    """

    __slots__ = (
        "_codec",
        "_database",
        "_payload",
        "attempt",
        "claimed_until",
        "correlation_id",
        "headers",
        "id",
        "key",
        "priority",
        "published_at",
        "queue",
        "raw_payload",
        "tenant_id",
        "token",
    )

    def __init__(
        self,
        database: Database,
        queue: str,
        token: str,
        claimed: ClaimedMessage,
        codec: Codec[P] = PLAIN,
    ) -> None:
        self._database = database
        self._codec = codec
        self._payload: P = _UNREAD
        self.queue = queue
        self.token = token
        self.id: MessageId = claimed.id
        self.raw_payload: Json = claimed.payload
        self.headers: dict[str, Json] = claimed.headers or {}
        self.key = claimed.key
        self.priority = claimed.priority
        self.attempt = claimed.attempt
        self.claimed_until: datetime = claimed.claimed_until
        self.published_at: datetime = claimed.published_at
        self.correlation_id = claimed.correlation_id
        self.tenant_id = claimed.tenant_id

    def __repr__(self) -> str:
        # The payload stays out: it may be large, or secret.
        return f"<Message {self.id} of queue {self.queue!r}, attempt {self.attempt}>"

    def beside(self, claimed: ClaimedMessage) -> Message[P]:
        """Another message of this token, with the same payload type."""
        return Message(self._database, self.queue, self.token, claimed, self._codec)

    @property
    def payload(self) -> P:
        """The payload as its type; PayloadInvalid if it does not fit."""
        # Read when it is asked for: one that does not fit must not spoil the batch it came in.
        if self._payload is _UNREAD:
            self._payload = self._codec.decode(self.raw_payload)
        return self._payload

    async def ack(self, connection: Any = None) -> bool:
        """Done: the message leaves the queue."""
        call = calls.ack(self.queue, self.id, self.token)
        return self._told(
            Name.MESSAGE_ACKED, held=await self._database.run(call, connection=connection)
        )

    async def nack(
        self,
        delay: timedelta | None = None,
        error: str | BaseException | None = None,
        *,
        connection: Any = None,
    ) -> bool:
        """Failed: try again after `delay`, or the queue's backoff; after the last attempt, dead."""
        call = calls.nack(self.queue, self.id, self.token, delay=delay, error=error)
        dead = await self._database.run(call, connection=connection)
        held = self._told(Name.MESSAGE_FAILED, held=dead is not None)
        if dead:
            self._told(Name.MESSAGE_DEAD_LETTERED, held=held)
        return held

    async def release(self, *, connection: Any = None) -> bool:
        """Give it back as if it had never been claimed."""
        call = calls.release(self.queue, self.id, self.token)
        return self._told(
            Name.MESSAGE_RELEASED, held=await self._database.run(call, connection=connection)
        )

    async def bury(
        self, error: str | BaseException | None = None, *, connection: Any = None
    ) -> bool:
        """Hopeless: to the dead letters, whatever its attempts."""
        call = calls.bury(self.queue, self.id, self.token, error=error)
        return self._told(
            Name.MESSAGE_DEAD_LETTERED, held=await self._database.run(call, connection=connection)
        )

    async def extend(self, extension: timedelta) -> datetime | None:
        """Keep it for longer; the answer is the new end of the claim, None if it is lost."""
        until = await self._database.run(calls.extend(self.queue, self.id, self.token, extension))
        if self._told(Name.CLAIM_EXTENDED, held=until is not None):
            assert until is not None
            self.claimed_until = until
        return until

    async def reply(self, payload: Any, *, connection: Any = None) -> Published:
        """Answer the client that sent this with `request()`."""
        call = calls.publish(
            reply.REPLIES,
            payload,
            headers=reply.reply_headers(self.headers, self.id),
            correlation_id=self.correlation_id,
        )
        connection = connection or self._database.lent_connection()
        number = await self._database.run(call, connection=connection)
        return Published(number)

    def _told(self, name: Name, *, held: bool) -> bool:
        emit(
            Event(
                name if held else Name.CLAIM_LOST,
                queue=self.queue,
                message_id=self.id,
                attempt=self.attempt,
            )
        )
        return held
