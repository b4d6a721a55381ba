-- Where a message is in a queue: 'unread', 'scheduled', 'claimed', 'done' or 'dead'; null when the queue never had it
-- (or its history is over and the message gone).
create or replace function penstock.message_state(queue_name text, message_id bigint) returns text
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    v_queue_id bigint := penstock_data.watched_queue(queue_name);
begin
    return case
        when exists (select from penstock_data.claims c where c.queue_id = v_queue_id and message_id = any (c.message_ids)) then 'claimed'
        when exists (select from penstock_data.scheduled_messages(v_queue_id) s where s.message_id = message_state.message_id) then 'scheduled'
        when exists (select from penstock_data.dead_letters d where d.queue_id = v_queue_id and d.message_id = message_state.message_id) then 'dead'
        when exists (select from penstock_data.receipts r where r.queue_id = v_queue_id and r.outcome in ('acked', 'lapsed')
                     and message_id = any (r.message_ids)) then 'done'
        when exists (select from penstock_data.unread_messages(v_queue_id) m where m.id = message_id) then 'unread'
    end;
end
$$;
comment on function penstock.message_state(text, bigint) is 'Where a message is in a queue: unread, scheduled, claimed, done or dead.';
