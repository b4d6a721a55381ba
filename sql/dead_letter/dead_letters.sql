-- Until the transaction ends, no step of housekeeping drops or moves messages: it could not see what this one is about
-- to need.  A step that is under way is waited for, ten seconds at most: only a session that keeps one open takes
-- longer.  The locks on rows of the log give a serialization error to a caller whose snapshot is older than the last
-- time it did so.
create or replace function penstock_data.keep_maintenance_out(p_queue penstock_data.queues) returns void
language plpgsql as $$
declare
    v_before text := current_setting('lock_timeout');
begin
    perform set_config('lock_timeout', '10s', true) where v_before = '0';
    perform from penstock_data.maintenance m where m.step in ('kept messages dropped', 'segments emptied') for share;
    perform set_config('lock_timeout', v_before, true);
    if current_setting('transaction_isolation') <> 'read committed' then
        perform from penstock_data.segments s where s.kind = 'messages' for share;
        perform from penstock_data.messages m
        where m.segment = 0 and m.topic_id = p_queue.topic_id
          and m.id = any (array(select d.message_id from penstock_data.dead_letters d where d.queue_id = p_queue.id))
        for key share;
    end if;
end
$$;

-- Refuse ids that are no dead letters of the queue.
create or replace function penstock_data.check_dead_letters(p_queue penstock_data.queues, p_ids bigint[]) returns void
language plpgsql as $$
declare
    v_unknown bigint := (
        select u.id from unnest(p_ids) as u(id)
        where not exists (select from penstock_data.dead_letters d where d.queue_id = p_queue.id and d.message_id = u.id)
        limit 1);
begin
    if v_unknown is not null then
        perform penstock_data.fail('PS014', format('message %s is no dead letter of queue %L', v_unknown, p_queue.name));
    end if;
end
$$;
