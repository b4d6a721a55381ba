"""What one of many clients does, as a pgbench script, for the queues that are plain SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace

# Each script finds nothing in peace: an empty claim must not end its client.
TEXTBOOK_CLAIM = """
update textbook.message m
set visible_at = clock_timestamp() + interval '600 seconds', read_count = m.read_count + 1
where m.id = any(array(
    select c.id from textbook.message c
    where c.queue = 'queue-0' and c.visible_at <= clock_timestamp()
    order by c.visible_at, c.id limit {batch} for update skip locked))
returning m.id, m.payload
"""


@dataclass(frozen=True, slots=True)
class Scripts:
    claim_one: str
    claim_batch: str
    publish_one: str
    #: How many messages were acked so far, as a query.
    acked: str

    def claim(self, batch: int) -> str:
        return (self.claim_one if batch == 1 else self.claim_batch).format(batch=batch)


_PENSTOCK = Scripts(
    claim_one="""
select coalesce(max(message_id), 0) as id, count(payload) as payloads
from penstock.consume_message('queue-0', 'client' || :client_id, 600) \\gset
select penstock.ack_message('queue-0', :id, 'client' || :client_id);
""",
    claim_batch="""
select coalesce(array_agg(message_id), '{{}}')::text as ids, count(payload) as payloads
from penstock.consume_messages_batch('queue-0', 'client' || :client_id, 600, {batch}) \\gset
select count(*) from penstock.ack_messages('queue-0', :ids::bigint[], 'client' || :client_id);
""",
    publish_one="""
select penstock.publish_message('orders', '{"order": 1, "note": "one of many publishers"}');
""",
    acked="""
select coalesce(sum(cardinality(message_ids)), 0) from penstock_data.receipts
where outcome = 'acked'
""",
)

# What a client holds is in its variables, which outlive a run of the script.
_PENSTOCK_NEXT = replace(
    _PENSTOCK,
    claim_one="""
select coalesce(max(message_id), 0) as id, count(payload) as payloads
from penstock.ack_and_consume('queue-0', 'client' || :client_id, :id, 600) \\gset
""",
    claim_batch="""
select coalesce(array_agg(message_id) filter (where message_id is not null), '{{}}')::text as ids,
    count(payload) as payloads
from penstock.ack_and_consume_batch(
    'queue-0', 'client' || :client_id, :ids::bigint[], 600, {batch}) \\gset
""",
)

_PGMQ = Scripts(
    claim_one="""
select coalesce(max(msg_id), 0) as id, count(message) as payloads
from pgmq.read('queue-0', 600, 1) \\gset
select pgmq.delete('queue-0', :id::bigint);
""",
    claim_batch="""
select coalesce(array_agg(msg_id), '{{}}')::text as ids, count(message) as payloads
from pgmq.read('queue-0', 600, {batch}) \\gset
select count(*) from pgmq.delete('queue-0', :ids::bigint[]);
""",
    publish_one="""
select pgmq.send('queue-0', '{"order": 1, "note": "one of many publishers"}'::jsonb);
""",
    acked="""
select (select last_value from pgmq."q_queue-0_msg_id_seq")
    - (select count(*) from pgmq."q_queue-0")
""",
)

_TEXTBOOK = Scripts(
    claim_one=f"""
with claimed as ({TEXTBOOK_CLAIM.replace("{batch}", "1")})
select coalesce(max(id), 0) as id, count(payload) as payloads from claimed \\gset
delete from textbook.message where id = :id;
""",
    claim_batch=f"""
with claimed as ({TEXTBOOK_CLAIM})
select coalesce(array_agg(id), '{{{{}}}}')::text as ids, count(payload) as payloads
from claimed \\gset
delete from textbook.message where id = any (:ids::bigint[]);
""",
    publish_one="""
insert into textbook.message (queue, payload)
values ('queue-0', '{"order": 1, "note": "one of many publishers"}') returning id;
""",
    acked="""
select (select last_value from textbook.message_id_seq) - (select count(*) from textbook.message)
""",
)

SCRIPTS = {
    "penstock": _PENSTOCK,
    "penstock-next": _PENSTOCK_NEXT,
    "textbook": _TEXTBOOK,
    "pgmq": _PGMQ,
}
