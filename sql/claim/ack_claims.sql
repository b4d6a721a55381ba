-- Finish whole claims: those of which every message is named together with the token, in one statement however many
-- claims there are.  Null tokens are passed over.  Returns the ids that are done; claims of which only a part was named
-- are not changed.  Locks: the claims.
create or replace function penstock_data.ack_claims(p_queue_name text, p_ids bigint[], p_tokens text[]) returns bigint[]
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_queue record;
    v_done  bigint[];
begin
    select * into v_queue from penstock_data.queue_to_ack(p_queue_name);
    if v_queue.ready is not true then
        perform penstock_data.check_ack(p_queue_name);
    end if;
    with named as (
        select u.token, array_agg(u.id) as ids from unnest(p_ids, p_tokens) as u(id, token) where u.token is not null group by u.token
    ), held as materialized (
        -- One look-up a token: a join might walk over all claims of the queue.
        select c.place
        from named n
        cross join lateral (
            select c.ctid as place from penstock_data.claims c
            where c.queue_id = v_queue.id and c.token = n.token and c.message_ids <@ n.ids and c.deadline > v_queue.now
            for update) c
    ), gone as (
        delete from penstock_data.claims c where c.ctid = any (array(select h.place from held h))
        returning c.claimed_at, c.token, c.message_ids, c.attempts, c.lanes
    ), receipt as (
        insert into penstock_data.receipts (queue_id, claimed_at, ended_at, segment, outcome, token, message_ids, attempts, lanes)
        select v_queue.id, g.claimed_at, v_queue.now, v_queue.receipt_segment, 'acked', g.token, g.message_ids, g.attempts, g.lanes
        from gone g
    )
    select array_agg(u.id) into v_done
    from gone g cross join lateral unnest(g.message_ids) as u(id)
    where g.lanes is null or penstock_data.wake_lanes(v_queue.id, g.lanes, u.id);
    return coalesce(v_done, '{}');
end
$$;
