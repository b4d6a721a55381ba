"""Calls about topics."""

# ruff: noqa: S608 - what is put into the text of a call are column lists of this file

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.values import given, many, nothing, one
from penstock.models import TopicId, TopicInfo
from penstock.postgres.call import Call

if TYPE_CHECKING:
    from datetime import timedelta

    from penstock.postgres.call import Row

_TOPIC = "id, name, created_at, retention, queue_count, reader_count"


def create_topic(topic: str, *, retention: timedelta | None = None) -> Call[TopicId]:
    options, values = given(("retention => %s::interval", retention))
    return Call(f"select penstock.create_topic(%s{options})", (topic, *values), one(TopicId))


def delete_topic(topic: str) -> Call[None]:
    again: Call[None] = Call(
        "select penstock.delete_topic(name) from penstock.list_topics() where name = %s",
        (topic,),
        nothing,
        lasting=True,
    )
    return Call("select penstock.delete_topic(%s)", (topic,), nothing, lasting=True, again=again)


def list_topics() -> Call[list[TopicInfo]]:
    return Call(f"select {_TOPIC} from penstock.list_topics()", (), many(_topic))


def cleanup_topic(topic: str) -> Call[int]:
    """Forget what all queues of a topic have completed."""
    return Call("select penstock.cleanup_topic_messages(%s)", (topic,), one(int), lasting=True)


def grant_topic(topic: str, role: str) -> Call[None]:
    return Call("select penstock.grant_topic(%s, %s)", (topic, role), nothing)


def revoke_topic(topic: str, role: str) -> Call[None]:
    return Call("select penstock.revoke_topic(%s, %s)", (topic, role), nothing)


def _topic(row: Row) -> TopicInfo:
    return TopicInfo(TopicId(row[0]), *row[1:])
