-- Defer the attempts of the suspects (suspect_messages) that a token holds: such an attempt counts from begin_attempt
-- on.  If the claim ends before, the message goes back as release_message gives it back.  Attempts that have begun stay
-- as they are.  A consumer calls this in the transaction of its claim; if it dies before it begins a suspect, the
-- suspect loses no attempt.  Returns the ids.  Locks: the claims.
-- Errors: PS002 unknown queue, PS009 a queue reserved for others.
-- Roles: consumer, admin
create or replace function penstock.defer_suspects(queue_name text, consumer_token text) returns setof bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_queue record;
    v_ids   bigint[];
begin
    select * into v_queue from penstock_data.queue_named(queue_name);
    v_ids := array(
        select s.id
        from penstock.suspect_messages(queue_name, consumer_token) as s(id)
        where not exists (
            select from penstock_data.claims c
            where c.queue_id = v_queue.id and c.token = consumer_token and c.first_id = s.id and c.histories ? 'begun'));
    -- Each gets a claim of its own, so that the claim as a whole is deferred.
    return query
    insert into penstock_data.claims (queue_id, first_id, deadline, claimed_at, token, message_ids, attempts, lanes, histories)
    select p.queue_id, u.id, p.deadline, p.claimed_at, p.token, array[u.id], array[u.attempt],
        case when p.lanes is not null then array[u.lane] end,
        jsonb_build_object(u.id, p.histories -> u.id::text, 'begun', false)
    from penstock_data.unclaim(v_queue.id, consumer_token, v_ids, clock_timestamp() + v_queue.clock_shift) p
    cross join lateral unnest(p.message_ids, p.attempts, p.lanes) as u(id, attempt, lane)
    returning first_id;
end
$$;
comment on function penstock.defer_suspects(text, text) is 'Count the attempts of the suspects held only when they begin.';
