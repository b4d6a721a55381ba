"""Calls about readers: positions in a topic's log that claim nothing."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from penstock.client.values import given, many, nothing, one
from penstock.models import LogMessage, MessageId, ReaderId, ReaderInfo
from penstock.postgres.call import Call

if TYPE_CHECKING:
    from penstock.postgres.call import Row


_READER = "id, name, topic_name, created_at, committed_at, lag"
_LOGGED = (
    "message_id, payload, headers, key, priority, published_at, deliver_after, expires_at, "
    "correlation_id, tenant_id"
)


def create_reader(
    reader: str, topic: str, *, start_at: datetime | str | None = None
) -> Call[ReaderId]:
    start = start_at.isoformat() if isinstance(start_at, datetime) else start_at
    options, values = given(("start_at => %s", start))
    return Call(
        f"select penstock.create_reader(%s, %s{options})", (reader, topic, *values), one(ReaderId)
    )


def delete_reader(reader: str) -> Call[None]:
    again: Call[None] = Call(
        "select penstock.delete_reader(name) from penstock.list_readers() where name = %s",
        (reader,),
        nothing,
    )
    return Call("select penstock.delete_reader(%s)", (reader,), nothing, again=again)


def list_readers() -> Call[list[ReaderInfo]]:
    return Call(f"select {_READER} from penstock.list_readers()", (), many(_reader))


def read_window(reader: str, *, limit: int = 1000) -> Call[list[LogMessage]]:
    """The same messages again until they are committed."""
    return Call(
        f"select {_LOGGED} from penstock.read_window(%s, %s::int)",
        (reader, limit),
        many(logged),
    )


def commit_window(reader: str, through: int) -> Call[bool]:
    return Call("select penstock.commit_window(%s, %s::bigint)", (reader, through), one(bool))


def grant_reader(reader: str, role: str) -> Call[None]:
    return Call("select penstock.grant_reader(%s, %s)", (reader, role), nothing)


def revoke_reader(reader: str, role: str) -> Call[None]:
    return Call("select penstock.revoke_reader(%s, %s)", (reader, role), nothing)


def _reader(row: Row) -> ReaderInfo:
    return ReaderInfo(ReaderId(row[0]), *row[1:])


def logged(row: Row) -> LogMessage:
    return LogMessage(MessageId(row[0]), *row[1:])
