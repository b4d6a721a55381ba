"""The consumer's side: claim messages, and say of many at once how they went."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

from penstock.client import calls
from penstock.client._async.core import Core
from penstock.client._async.message import Message
from penstock.client.payloads import codec_for
from penstock.errors import InvalidSetting
from penstock.observe import Event, Name, emit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.models import MessageId

P = TypeVar("P")

CLAIM_FOR = timedelta(seconds=30)


def new_token() -> str:
    """A name for one claim, which nobody else can guess or have."""
    return uuid.uuid4().hex


class Next(NamedTuple, Generic[P]):
    """What `ack_and_claim` has done."""

    acked: list[MessageId]
    """Those whose claim still held.  For the others nothing was changed."""
    messages: list[Message[P]]
    """Claimed now; none when nothing was there to be claimed."""


def _of_one_claim(done: Sequence[Message[P]]) -> Message[P]:
    if not done:
        raise InvalidSetting("ack_and_claim needs the messages that are done: begin with claim()")
    first = done[0]
    if any((each.queue, each.token) != (first.queue, first.token) for each in done):
        raise InvalidSetting(
            "ack_and_claim got messages of several claims: call it with those of one claim(), "
            "or claim with the same token"
        )
    return first


class Claiming(Core):
    """One claim at a time; `consume()` makes a stream of them."""

    @overload
    async def claim(
        self,
        queue: str,
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
        token: str | None = None,
        payload_type: type[P],
    ) -> list[Message[P]]: ...

    @overload
    async def claim(
        self,
        queue: str,
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
        token: str | None = None,
        payload_type: Any = None,
    ) -> list[Message[Any]]: ...

    async def claim(
        self,
        queue: str,
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
        token: str | None = None,
        payload_type: Any = None,
    ) -> list[Message[Any]]:
        """Claim up to `count` messages for that long; none when nothing is there to be claimed.

        A payload that does not fit its type raises when it is read: see `Message.payload`.
        """
        codec = codec_for(payload_type)
        token = token or new_token()
        claimed = await self.database.claim(calls.consume_batch(queue, token, claim_for, count))
        if claimed:
            emit(Event(Name.MESSAGE_CLAIMED, queue=queue, count=len(claimed)))
        return [Message(self.database, queue, token, each, codec) for each in claimed]

    async def ack_and_claim(
        self,
        done: Sequence[Message[P]],
        *,
        count: int = 1,
        claim_for: timedelta = CLAIM_FOR,
    ) -> Next[P]:
        """Ack these messages and claim up to `count` others, in one transaction.

        For consumers that loop: it saves a round trip and a commit.  The messages come from one
        claim, and the new ones have the same token and payload type.
        """
        first = _of_one_claim(done)
        call = calls.ack_and_claim(
            first.queue, [each.id for each in done], first.token, claim_for, count
        )
        acked, claimed = await self.run(call)
        if acked:
            emit(Event(Name.MESSAGE_ACKED, queue=first.queue, count=len(acked)))
        if claimed:
            emit(Event(Name.MESSAGE_CLAIMED, queue=first.queue, count=len(claimed)))
        return Next(acked, [first.beside(each) for each in claimed])

    async def ack_many(
        self, queue: str, message_ids: Sequence[int], token: str, *, connection: Any = None
    ) -> list[MessageId]:
        """Done, all of them; the answer holds the ids that the token still held."""
        call = calls.ack_many(queue, message_ids, token)
        held = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_ACKED, queue=queue, count=len(held)))
        return held

    async def nack_many(
        self,
        queue: str,
        message_ids: Sequence[int],
        token: str,
        *,
        delay: timedelta | None = None,
        error: str | BaseException | None = None,
        connection: Any = None,
    ) -> list[MessageId]:
        """Failed, all of them."""
        call = calls.nack_many(queue, message_ids, token, delay=delay, error=error)
        held = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_FAILED, queue=queue, count=len(held)))
        for message_id, dead in held.items():
            if dead:
                emit(Event(Name.MESSAGE_DEAD_LETTERED, queue=queue, message_id=message_id))
        return list(held)

    async def release_many(
        self, queue: str, message_ids: Sequence[int], token: str, *, connection: Any = None
    ) -> list[MessageId]:
        """Give them back as if they had never been claimed."""
        call = calls.release_many(queue, message_ids, token)
        held = await self.run(call, connection=connection)
        emit(Event(Name.MESSAGE_RELEASED, queue=queue, count=len(held)))
        return held

    async def extend_many(
        self, queue: str, message_ids: Sequence[int], token: str, extension: timedelta
    ) -> dict[MessageId, datetime]:
        """Keep them for longer; the answer holds the new end of each claim that still held."""
        extended = await self.run(calls.extend_many(queue, message_ids, token, extension))
        held = dict(extended)
        emit(Event(Name.CLAIM_EXTENDED, queue=queue, count=len(held)))
        return held

    async def bury(
        self,
        queue: str,
        message_id: int,
        token: str,
        *,
        error: str | BaseException | None = None,
        connection: Any = None,
    ) -> bool:
        """Hopeless: to the dead letters, whatever its attempts."""
        call = calls.bury(queue, message_id, token, error=error)
        held = await self.run(call, connection=connection)
        if held:
            emit(Event(Name.MESSAGE_DEAD_LETTERED, queue=queue, message_id=message_id))
        return held
