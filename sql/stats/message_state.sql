-- Where a message is in a queue: 'waiting', 'blocked', 'delayed', 'retrying', 'claimed', 'done' or 'dead'; null when
-- the queue never had it (or its history is over and the message gone).  inspect_message() tells what blocks it.
-- Roles: consumer, monitor, admin
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
    v_state    text;
begin
    if exists (select from penstock_data.claims c where c.queue_id = v_queue_id and c.token <> '' and message_id = any (c.message_ids)) then
        return 'claimed';
    end if;
    if exists (select from penstock_data.dead_letters d where d.queue_id = v_queue_id and d.message_id = message_state.message_id) then
        return 'dead';
    end if;
    select p.state into v_state from penstock_data.pending_messages(v_queue_id, greatest(message_id, 1) - 1, message_id, null) p;
    return case
        when v_state is not null then v_state
        when exists (select from penstock_data.receipts r where r.queue_id = v_queue_id and r.xid >= v_since
                     and r.outcome in ('acked', 'lapsed') and message_id = any (r.message_ids)) then 'done'
        when exists (select from penstock_data.receipts r where r.queue_id = v_queue_id and r.xid < v_since
                     and r.outcome in ('acked', 'lapsed') and message_id = any (r.message_ids)) then 'done'
    end;
end
$$;
comment on function penstock.message_state(text, bigint) is
    'Where a message is in a queue: waiting, blocked, delayed, retrying, claimed, done or dead.';
