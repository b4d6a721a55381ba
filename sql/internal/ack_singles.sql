-- Finish messages that were claimed one by one, each with its token, in one statement.  Returns the ids whose claim was
-- of this message alone and still held; the others are not changed.  Locks: the claims.
create or replace function penstock_data.ack_singles(p_queue_name text, p_ids bigint[], p_tokens text[]) returns bigint[]
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
    v_queue record;
    v_done  bigint[];
begin
    select q.id, s.receipt_segment, clock_timestamp() + s.clock_shift as now, q.consumers is null and not q.exclusive as open
    into v_queue
    from penstock_data.queues q cross join penstock_data.settings s
    where q.name = p_queue_name and s.single;
    if (v_queue.open and current_setting('penstock.at_home', true) = 'yes') is not true then
        perform penstock_data.check_queue(p_queue_name);
    end if;
    with held as materialized (
        -- One look-up each: a join might walk over all claims of the queue.
        select c.place
        from unnest(p_ids, p_tokens) as u(id, token)
        cross join lateral (
            select c.ctid as place from penstock_data.claims c
            where c.queue_id = v_queue.id and c.token = u.token and c.first_id = u.id and c.message_ids = array[u.id]
              and c.deadline > v_queue.now
            for update) c
    ), gone as (
        delete from penstock_data.claims c where c.ctid = any (array(select h.place from held h))
        returning c.claimed_at, c.token, c.message_ids, c.attempts, c.lanes
    ), receipt as (
        insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes)
        select v_queue.id, g.claimed_at, v_queue.now, v_queue.receipt_segment, 'acked', g.token, g.message_ids, g.attempts, g.lanes
        from gone g
    )
    select array_agg(g.message_ids[1]) into v_done from gone g
    where g.lanes is null or penstock_data.wake_lanes(v_queue.id, g.lanes, g.message_ids[1]);
    return coalesce(v_done, '{}');
end
$$;
