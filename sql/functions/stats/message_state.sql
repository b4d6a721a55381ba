-- Where a message is in a queue: 'unread', 'scheduled', 'claimed', 'done' or 'dead'; null when the queue never had it
-- (or its history is over and the message gone).
create or replace function penstock.message_state(queue_name text, message_id bigint) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_queue_id bigint := penstock_data.watched_queue(queue_name);
    -- A receipt is mostly younger than its message; not when a transaction that began before acks it.
    v_since    xid8 := coalesce((
        select m.xid from penstock_data.messages m join penstock_data.queues q on q.topic_id = m.topic_id
        where q.id = v_queue_id and m.id = message_id), '0');
begin
    return case
        when exists (select from penstock_data.claims c where c.queue_id = v_queue_id and message_id = any (c.message_ids)) then 'claimed'
        when exists (select from penstock_data.scheduled_messages(v_queue_id) s where s.message_id = message_state.message_id) then 'scheduled'
        when exists (select from penstock_data.dead_letters d where d.queue_id = v_queue_id and d.message_id = message_state.message_id) then 'dead'
        when exists (select from penstock_data.queues q cross join lateral penstock_data.position_of(q.id) p
                     join penstock_data.messages m on m.topic_id = q.topic_id
                     where q.id = v_queue_id and m.id = message_state.message_id and m.segment > 0
                       and penstock_data.is_unread(q, p, m)) then 'unread'
        when exists (select from penstock_data.receipts r where r.queue_id = v_queue_id and r.xid >= v_since
                     and r.outcome in ('acked', 'lapsed') and message_id = any (r.message_ids)) then 'done'
        when exists (select from penstock_data.receipts r where r.queue_id = v_queue_id and r.xid < v_since
                     and r.outcome in ('acked', 'lapsed') and message_id = any (r.message_ids)) then 'done'
    end;
end
$$;
comment on function penstock.message_state(text, bigint) is 'Where a message is in a queue: unread, scheduled, claimed, done or dead.';
