-- Drop everything a queue holds that is not done: pending and claimed messages.  Dead letters and history stay.
-- Returns how many messages were dropped.  Tokens of earlier claims are void.  What a transaction has published and not
-- committed yet, the caller's own included, is neither dropped nor counted.
-- Locks: the queue's claim lock, and its claims.
-- Roles: admin
create or replace function penstock.purge_queue(queue_name text) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue penstock_data.queues;
    v_start penstock_data.positions;
    v_count bigint;
begin
    perform penstock_data.check_queue(queue_name);
    select * into v_queue from penstock_data.queues q where q.name = queue_name;
    perform penstock_data.lock_queue_and_claims(v_queue.id, queue_name);
    select c.pending + c.processing into v_count from penstock_data.count_queue(v_queue.id) c;
    if pg_current_xact_id_if_assigned() is not null then
        v_count := v_count - (
            select count(*) from penstock_data.unread_messages(v_queue.id) m where m.xid = pg_current_xact_id_if_assigned());
    end if;
    perform penstock_data.clear_queue(v_queue.id);
    v_start := penstock_data.start_position(v_queue, true);
    -- Turns go on, or claims would walk over the dead rows of those that were.
    select p.seq + 1, p.turn, case when p.turn is not null then p.levels end, p.level_turns, p.level_turn_ids
    into v_start.seq, v_start.turn, v_start.levels, v_start.level_turns, v_start.level_turn_ids
    from penstock_data.position_of(v_queue.id) p;
    insert into penstock_data.positions select v_start.*;
    return v_count;
end
$$;
comment on function penstock.purge_queue(text) is 'Drop every message of a queue that is not done; returns how many.';

-- Drop all messages of all topics, with claims, dead letters and history.  For tests.  Topics and queues stay.
-- Roles: admin
create or replace function penstock.purge_all_messages() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_queue text;
begin
    perform penstock.cleanup_expired_exclusive_queues();
    for v_queue in select q.name from penstock_data.queues q order by q.id loop
        perform penstock.purge_queue(v_queue);
    end loop;
    delete from penstock_data.dead_letters;
    delete from penstock_data.dedupe_keys;
    delete from penstock_data.receipts;
    perform penstock_data.note_emptied(null, penstock_data.clock());
    delete from penstock_data.messages;
end
$$;
comment on function penstock.purge_all_messages() is 'Drop all messages of all topics; topics and queues stay.';
