-- Say that messages are done.  Returns the ids whose claim the token still held; the others are not changed.
-- Locks: the claims.  A whole claim acked as it was handed out, the usual case, is deleted by its key.
-- Roles: consumer, admin
create or replace function penstock.ack_messages(queue_name text, message_ids bigint[], token text) returns setof bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue record;
begin
    -- Apart from the statement below: a join could start at the claims, and walk over all of them.
    select * into v_queue from penstock_data.queue_to_ack(queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_ack(queue_name);
    end if;

    return query
    with gone as (
        delete from penstock_data.claims c
        where c.queue_id = v_queue.id and c.token = ack_messages.token and c.first_id = ack_messages.message_ids[1]
          and c.message_ids = ack_messages.message_ids and c.deadline > v_queue.now
        returning c.claimed_at, c.message_ids, c.attempts, c.lanes
    ), receipt as (
        insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes)
        select v_queue.id, g.claimed_at, v_queue.now, v_queue.receipt_segment, 'acked', ack_messages.token, g.message_ids, g.attempts, g.lanes
        from gone g
    )
    select unnest(g.message_ids) from gone g
    where g.lanes is null or penstock_data.wake_lanes(v_queue.id, g.lanes, g.message_ids[1]);
    if found then
        return;
    end if;

    return query
    with gone as (
        select * from penstock_data.unclaim(v_queue.id, ack_messages.token, ack_messages.message_ids, v_queue.now)
    ), receipt as (
        insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes)
        select v_queue.id, g.claimed_at, v_queue.now, v_queue.receipt_segment, 'acked', g.token, g.message_ids, g.attempts, g.lanes
        from gone g
        returning message_ids, lanes
    )
    select unnest(r.message_ids) from receipt r
    where r.lanes is null or penstock_data.wake_lanes(v_queue.id, r.lanes, r.message_ids[1]);
end
$$;
comment on function penstock.ack_messages(text, bigint[], text) is 'Finish messages; returns the ids whose claim the token still held.';

-- Say that a message is done.  False: the token no longer holds it, nothing was changed.  A claim of this message
-- alone, the usual case, is dealt with here, in statements as small as they can be; anything else is left to
-- ack_messages.
-- Roles: consumer, admin
create or replace function penstock.ack_message(queue_name text, message_id bigint, token text) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_queue record;
    v_claim record;
begin
    select q.id, clock_timestamp() + s.clock_shift as now, s.receipt_segment into v_queue
    from penstock_data.queues q cross join penstock_data.settings s
    where q.name = queue_name and q.consumers is null and not q.exclusive and s.single
      and current_setting('penstock.at_home', true) = 'yes';
    delete from penstock_data.claims c
    where c.queue_id = v_queue.id and c.token = ack_message.token and c.first_id = ack_message.message_id
      and c.message_ids = array[ack_message.message_id] and c.deadline > v_queue.now
    returning c.claimed_at, c.message_ids, c.attempts, c.lanes into v_claim;
    if not found then
        return exists (select from penstock.ack_messages(queue_name, array[message_id], ack_message.token));
    end if;
    insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes)
    values (v_queue.id, v_claim.claimed_at, v_queue.now, v_queue.receipt_segment, 'acked', ack_message.token,
        v_claim.message_ids, v_claim.attempts, v_claim.lanes);
    if v_claim.lanes is not null then
        return penstock_data.wake_lanes(v_queue.id, v_claim.lanes, v_claim.message_ids[1]);
    end if;
    return true;
end
$$;
comment on function penstock.ack_message(text, bigint, text) is 'Finish a message; false when the token no longer holds it.';
