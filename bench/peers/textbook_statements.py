"""The textbook queue's statements: written out, or as calls of the functions in textbook.sql."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString


@dataclass(frozen=True, slots=True)
class Statements:
    publish_one: LiteralString
    publish_batch: LiteralString
    claim_one: LiteralString
    claim_batch: LiteralString
    ack_one: LiteralString
    ack_batch: LiteralString


INLINE = Statements(
    publish_one="""
        insert into textbook.message (queue, payload) values (%(queue)s, %(payload)b) returning id
        """,
    publish_batch="""
        insert into textbook.message (queue, payload)
        select queue, payload
        from unnest(%(payloads)b::jsonb[]) as payload, unnest(%(queues)s::text[]) as queue
        returning id
        """,
    claim_one="""
        update textbook.message m
        set visible_at = clock_timestamp() + make_interval(secs => %(lease)s),
            read_count = m.read_count + 1
        where m.id = (
            select c.id
            from textbook.message c
            where c.queue = %(queue)s and c.visible_at <= clock_timestamp()
            order by c.visible_at, c.id
            limit 1
            for update skip locked
        )
        returning m.id, m.payload
        """,
    claim_batch="""
        update textbook.message m
        set visible_at = clock_timestamp() + make_interval(secs => %(lease)s),
            read_count = m.read_count + 1
        where m.id = any(array(
            select c.id
            from textbook.message c
            where c.queue = %(queue)s and c.visible_at <= clock_timestamp()
            order by c.visible_at, c.id
            limit %(size)s
            for update skip locked
        ))
        returning m.id, m.payload
        """,
    ack_one="delete from textbook.message where id = %(id)b returning 1",
    ack_batch="""
        with done as (delete from textbook.message where id = any(%(ids)b::bigint[]) returning 1)
        select count(*) from done
        """,
)

FUNCTIONS = Statements(
    publish_one="select textbook.publish(%(queue)s::text, %(payload)b)",
    publish_batch="select textbook.publish(%(queues)s::text[], %(payloads)b)",
    claim_one="select id, payload from textbook.claim_one(%(queue)s, %(lease)s::int)",
    claim_batch="""
        select id, payload from textbook.claim(%(queue)s, %(lease)s::int, %(size)s::int)
        """,
    ack_one="select textbook.ack_one(%(id)b)::int",
    ack_batch="select textbook.ack(%(ids)b)",
)

#: Without an index on the deadline: in order of the ids.
HOT = Statements(
    publish_one=INLINE.publish_one,
    publish_batch=INLINE.publish_batch,
    claim_one=INLINE.claim_one.replace("order by c.visible_at, c.id", "order by c.id"),
    claim_batch=INLINE.claim_batch.replace("order by c.visible_at, c.id", "order by c.id"),
    ack_one=INLINE.ack_one,
    ack_batch=INLINE.ack_batch,
)
